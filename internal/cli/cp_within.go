package cli

import (
	"errors"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

// openPlace opens a directory of the host that something of a sandbox is written to. Once
// the way there is in a directory that the sandbox writes to itself, nothing leads out of
// that, wherever it would end: the inside may have made a link, for somebody to copy to
// where it leads, and may change it at any moment.
func openPlace(sb *spec.Sandbox, dir string) (*os.Root, error) {
	// Not $PWD, which may name a way here through links: the kernel goes from where it is.
	cwd, err := os.Readlink("/proc/self/cwd")
	if err != nil {
		return nil, err
	}
	w := way{written: writtenBy(sb), readlink: os.Readlink}
	top, rest, err := w.find(cwd, dir)
	if err != nil {
		return nil, speakOf(err, dir)
	}
	// The slash: a pipe is not opened, which would wait for somebody to write to it.
	if top == "" {
		place, err := os.OpenRoot(rest + "/")
		return place, speakOf(err, dir)
	}
	root, err := os.OpenRoot(top)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	place, err := root.OpenRoot(rest + "/")
	err = speakOf(err, dir)
	switch {
	case err == nil:
		return place, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, unix.ENOTDIR):
		return nil, err
	}
	return nil, spec.Errorf(spec.ErrDenied, "%s may lead out of %s, which the sandbox writes to: %w", dir, top, err).
		WithHint("if the link in its path is yours, name where it leads to")
}

// writtenBy lists the directories of the host that a sandbox writes to.
func writtenBy(sb *spec.Sandbox) []string {
	var dirs []string
	for _, m := range slices.Concat(sb.Workspaces, sb.Volumes) {
		if !m.ReadOnly && !sb.Reviews(m) && !sb.Clones(m) {
			dirs = append(dirs, m.Source)
		}
	}
	return dirs
}

// speakOf has an error speak of the path that was asked for.
func speakOf(err error, path string) error {
	if wrong, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: "open", Path: path, Err: wrong.Err}
	}
	return err
}
