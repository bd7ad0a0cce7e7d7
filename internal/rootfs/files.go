package rootfs

import (
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/hostroot"
	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/image/erofs"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Files are the files that programs of a sandbox with an image see.
type Files struct {
	Sandbox *spec.Sandbox
	Root    image.Root
}

// maxTold bounds a file that states a version, in bytes.
const maxTold = 256 << 10

// Lacks returns why a runtime of the image cannot be used, or the empty string if it can. It runs
// none of the image's programs: it reads the version from a file beside the program. In doubt it
// refuses the runtime.
func (i *Files) Lacks(r *spec.Agent, least string) (why string) {
	if sb := i.Sandbox; sb.Template != sb.Image.Name && sb.Template != sb.Image.Digest {
		return fmt.Sprintf("what template %s has changed in its image is not known", sb.Template)
	}
	if sets := func(kv string) bool { return strings.HasPrefix(kv, "PATH=") }; slices.ContainsFunc(i.Sandbox.Env, sets) ||
		i.Sandbox.Devcontainer != nil && slices.ContainsFunc(i.Sandbox.Devcontainer.Env, sets) {
		return "the sandbox has a PATH of its own"
	}
	var version string
	err := i.readRoot(func(files *erofs.Reader) (err error) {
		version, err = i.programVersion(files, r)
		return err
	})
	switch {
	case errors.Is(err, errNoProgram):
		return fmt.Sprintf("the image has no %s", r.Program)
	case err != nil:
		return err.Error()
	case !agent.AtLeast(version, least):
		return fmt.Sprintf("the image's is %s, and %s is needed", version, least)
	}
	return ""
}

// Has reports whether the image has a directory or file; in doubt it is false.
func (i *Files) Has(name string) (has bool) {
	err := i.readRoot(func(files *erofs.Reader) error {
		_, n, err := findFile(files, name)
		has = n != nil
		return err
	})
	return err == nil && has
}

// readRoot calls do with the files of the image.
func (i *Files) readRoot(do func(*erofs.Reader) error) error {
	f, err := store.OpenRegular(i.Root.File(), 0)
	if err != nil {
		return err
	}
	defer f.Close()
	files, err := erofs.Open(f)
	if err != nil {
		return err
	}
	return do(files)
}

// programVersion returns the version of a runtime's program, as a file states it. If the image lacks the
// program, the error is errNoProgram.
func (i *Files) programVersion(files *erofs.Reader, r *spec.Agent) (string, error) {
	program, err := i.findProgram(files, r.Program)
	if err != nil {
		return "", err
	}
	if r.Told == nil {
		return "", fmt.Errorf("it is not known which version the image's %s is", program)
	}
	told, n, err := findFile(files, path.Join(path.Dir(program), r.Told.File))
	if err != nil {
		return "", err
	}
	if n == nil || !n.IsFile() || n.Data.Size > maxTold || i.hidden(told) {
		return "", fmt.Errorf("the image has %s, and no %s to tell which version that is", program, told)
	}
	text, err := io.ReadAll(files.Content(n))
	if err != nil {
		return "", err
	}
	version := agent.VersionTold(r.Told, string(text))
	if version == "" {
		return "", fmt.Errorf("the image's %s does not tell which version %s is", told, program)
	}
	return version, nil
}

// findProgram finds a program as the sandbox finds it, and resolves links on the way. It refuses a
// program that not everybody may run, or that the sandbox may hide by something else.
func (i *Files) findProgram(files *erofs.Reader, name string) (string, error) {
	search := hostroot.Path
	for _, kv := range i.Root.Env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok && v != "" {
			search = v
		}
	}
	for dir := range strings.SplitSeq(i.Root.Account.Home+"/.local/bin:"+search, ":") {
		if !path.IsAbs(dir) {
			return "", errors.New("the image's PATH has a directory that is not absolute")
		}
		program, n, err := findFile(files, path.Join(dir, name))
		switch {
		case err != nil:
			return "", err
		case n == nil || n.IsDir():
			continue
		case i.hidden(program) || isUnder(program, i.Root.Account.Home) || !everybodys(files, program, n):
			return "", fmt.Errorf("the image's %s may not be there for everybody", program)
		}
		magic := make([]byte, len(elf))
		if _, err := files.Content(n).ReadAt(magic, 0); err != nil || string(magic) != elf {
			return "", fmt.Errorf("the image's %s is a script, not a program", program)
		}
		return program, nil
	}
	return "", errNoProgram
}

var errNoProgram = errors.New("the image lacks the program")

// hidden reports whether the sandbox may see something else at a path.
func (i *Files) hidden(name string) bool {
	covered := func(m spec.Mount) bool { return isUnder(name, m.Target) }
	return slices.ContainsFunc(i.Sandbox.Workspaces, covered) || slices.ContainsFunc(i.Sandbox.Volumes, covered) ||
		slices.ContainsFunc(i.Sandbox.Private, func(dir string) bool { return isUnder(name, dir) })
}

// elf is how programs begin.
const elf = "\x7fELF"

// findFile returns a file, with links on the way resolved. The node is nil if the file does not exist.
func findFile(files *erofs.Reader, name string) (real string, n *erofs.Node, err error) {
	real, there, err := files.Resolve(name)
	if err != nil || !there {
		return real, nil, err
	}
	n, err = files.Lookup(real)
	return real, n, err
}

// everybodys reports whether any user may run a program.
func everybodys(files *erofs.Reader, program string, n *erofs.Node) bool {
	if n.Mode&0o005 != 0o005 {
		return false
	}
	for dir := path.Dir(program); dir != "/"; dir = path.Dir(dir) {
		if at, err := files.Lookup(dir); err != nil || at.Mode&0o001 == 0 {
			return false
		}
	}
	return true
}

func isUnder(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }
