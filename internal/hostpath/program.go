package hostpath

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

// Path returns the caller's PATH without the entries that sandboxes write to, and without empty and
// relative ones. Bothy gives it to the programs that it starts, as they start others by name.
func (g *Guard) Path() string {
	if g.path != nil {
		return *g.path
	}
	var list []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if filepath.IsAbs(dir) && !g.writtenDir(dir) {
			list = append(list, dir)
		}
	}
	path := strings.Join(list, string(filepath.ListSeparator))
	g.path = &path
	return path
}

// WrittenAt reports whether a sandbox may have written the file at a path, or chosen which file
// is there. A path that cannot be looked at counts, unless it does not exist.
func (g *Guard) WrittenAt(path string) bool {
	p, err := g.Find(path)
	return p.Top != "" || p.written || err != nil && !errors.Is(err, fs.ErrNotExist)
}

// writtenDir reports whether a directory is in one that a sandbox writes to. A directory that
// cannot be looked at counts, unless it does not exist.
func (g *Guard) writtenDir(dir string) bool {
	p, err := g.Find(dir)
	return p.Top != "" || err != nil && !errors.Is(err, fs.ErrNotExist)
}

// Program finds a program of the host: by its name in the caller's PATH, or by its path. It skips
// a program that a sandbox may have written, and refuses it if it finds no other.
func (g *Guard) Program(name string) (string, error) {
	if strings.Contains(name, "/") {
		file, err := filepath.Abs(name)
		if err != nil {
			return "", err
		}
		return file, g.startable(file, 0)
	}
	var refused error
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		file := filepath.Join(dir, name)
		err := g.startable(file, 0)
		switch {
		case err == nil:
			return file, nil
		case refused == nil && errors.Is(err, spec.ErrDenied):
			refused = err
		}
	}
	if refused != nil {
		return "", refused
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}

// Command prepares to start a program of the host, as [exec.CommandContext] does.
func (g *Guard) Command(ctx context.Context, name string, args ...string) (*exec.Cmd, error) {
	file, err := g.Program(name)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, file, args...)
	cmd.Args[0] = name
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PATH=") }), "PATH="+g.Path())
	return cmd, nil
}

// maxInterpreters is how many scripts may interpret each other, as in the kernel.
const maxInterpreters = 5

// startable rejects a file that is not a program. It also rejects a program if a sandbox may have
// written it or its interpreter.
func (g *Guard) startable(file string, depth int) error {
	p, err := g.Find(file)
	if err != nil {
		return err
	}
	fd, err := p.openPlace(file, unix.O_PATH)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), file)
	defer f.Close()
	if p.written {
		return spec.Errorf(spec.ErrDenied, "%s is not started: a sandbox writes to it, or has written to it, or to %s", file, cmp.Or(p.Top, filepath.Dir(p.Rest))).
			WithHint("have the program in a directory of PATH that no sandbox writes to")
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return &fs.PathError{Op: "start", Path: file, Err: unix.EACCES}
	}
	if err := unix.Faccessat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.X_OK, unix.AT_EACCESS); err != nil {
		return &fs.PathError{Op: "start", Path: file, Err: err}
	}
	interpreter := interpreterOf(fd)
	if interpreter == "" {
		return nil
	}
	if !filepath.IsAbs(interpreter) || depth == maxInterpreters {
		return spec.Errorf(spec.ErrDenied, "%s is not started: %q would run it", file, interpreter)
	}
	return g.startable(interpreter, depth+1)
}

// interpreterOf returns the program that runs a script. It is empty if the file is not a script, or
// cannot be read.
func interpreterOf(fd int) string {
	f, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, 4096)
	n, _ := f.Read(head)
	line, ok := bytes.CutPrefix(head[:n], []byte("#!"))
	if !ok {
		return ""
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	if words := bytes.Fields(line); len(words) > 0 {
		return string(words[0])
	}
	return ""
}
