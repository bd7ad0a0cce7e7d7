// Package step is the part of bothy-build that runs inside a sandbox. It runs one step of a build behind
// the wall, where hostile links of an image lead nowhere and files can have any owner. Hostile code runs
// beside it, so no program outside trusts it.
//
// Files that a step reads from elsewhere are first copied to a directory of the root, as an archive from
// another sandbox. That directory is removed before the root is saved.
package step

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/moby/buildkit/solver/pb"
	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/build"
)

// Main plays a role and returns its exit code.
func Main(role string, args []string) int {
	if role == build.RoleEnter {
		return enterCommand(args)
	}
	unix.Umask(0) // files get exactly the requested modes, as in BuildKit
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	var s build.Step
	err := uncover("/tmp")
	if err == nil {
		err = readLine(in, &s)
	}
	if err == nil {
		switch role {
		case build.RoleReceive:
			err = receive(in, s.Name)
		case build.RoleSend:
			err = sendInput(out, s)
		case build.RoleStore:
			err = storeDir(out, s.Name)
		case build.RoleDo:
			return answer(runStep(s))
		case build.RoleClean:
			err = os.RemoveAll(build.Stage)
		default:
			err = fmt.Errorf("no role %q", role)
		}
	}
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// uncover unmounts the file system in memory that the wall mounts over an empty /tmp. Later steps and
// the image then find the files of the root's own /tmp. Without a mount, or if a step has removed /tmp,
// uncover does nothing.
func uncover(dir string) error {
	err := unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err == nil || err == unix.EINVAL || err == unix.ENOENT {
		return nil
	}
	return fmt.Errorf("uncover %s: %w", dir, err)
}

// maxStep bounds the size of a step's description, in bytes.
const maxStep = 64 << 20

func readLine(in *bufio.Reader, v any) error {
	line, err := in.ReadSlice('\n')
	var rest []byte
	for ; errors.Is(err, bufio.ErrBufferFull) && len(rest) < maxStep; line, err = in.ReadSlice('\n') {
		rest = append(rest, line...)
	}
	if err != nil {
		return fmt.Errorf("read the step: %w", err)
	}
	return json.Unmarshal(append(rest, line...), v)
}

func answer(exit int, err error) int {
	o := build.Outcome{Exit: exit}
	if err != nil {
		o.Error = err.Error()
	}
	if json.NewEncoder(os.Stdout).Encode(o) != nil {
		return 1
	}
	return 0
}

// staged returns the path of a directory below the stage. Bothy chooses the names.
func staged(name string) string { return filepath.Join(build.Stage, name) }

func receive(r io.Reader, name string) error {
	if err := os.MkdirAll(build.Stage, 0o700); err != nil {
		return err
	}
	dir := staged(name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return unpack(r, dir)
}

func storeDir(w io.Writer, name string) error {
	p := newPacker(w, staged(name))
	if err := p.packTree("/"); err != nil {
		return err
	}
	return p.close()
}

// sendInput packs the files that an operation reads from an input. The input is this sandbox's root.
func sendInput(w io.Writer, s build.Step) error {
	op := &pb.Op{}
	if err := op.UnmarshalVT(s.Op); err != nil {
		return err
	}
	p := newPacker(w, "/")
	p.image, p.placed = true, s.Placed
	p.without = []string{"/proc", "/sys", "/dev", "/.bothy", build.Stage}
	err := p.packInput(op, s.Input)
	if err != nil {
		return err
	}
	return p.close()
}

func (p *packer) packInput(op *pb.Op, input int) error {
	var err error
	switch o := op.Op.(type) {
	case *pb.Op_Exec:
		for _, m := range o.Exec.Mounts {
			if err == nil && m.Dest != "/" && m.Input == int64(input) {
				err = p.packPath(m.Selector)
			}
		}
	case *pb.Op_File:
		for _, a := range o.File.Actions {
			if c, ok := a.Action.(*pb.FileAction_Copy); ok && err == nil && a.SecondaryInput == int64(input) {
				err = p.packCopied(c.Copy)
			}
		}
	}
	return err
}

func runStep(s build.Step) (exit int, err error) {
	op := &pb.Op{}
	if err := op.UnmarshalVT(s.Op); err != nil {
		return 0, err
	}
	switch o := op.Op.(type) {
	case *pb.Op_Exec:
		return runCommand(s, o.Exec)
	case *pb.Op_File:
		if s.Name == "" {
			return 0, root("/").changeFiles(s, o.File)
		}
		dir := staged(s.Name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return 0, err
		}
		return 0, root(dir).changeFiles(s, o.File)
	}
	return 0, fmt.Errorf("operation %T is unknown", op.Op)
}
