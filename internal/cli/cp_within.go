package cli

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/spec"
)

// openPlace opens a directory of the host that something of a sandbox is written to or read
// from. Once the way there is in a directory that a sandbox writes to, nothing leads out of
// that, wherever it would end: the inside may have made a link, for somebody to copy to
// where it leads, or from there, and may change it at any moment.
func openPlace(written []string, dir string) (*os.Root, error) {
	_, place, err := placeAt(written, dir)
	return place, err
}

// placeAt is openPlace that tells in which such directory the place is; none is "".
func placeAt(written []string, dir string) (top string, place *os.Root, err error) {
	w, cwd, err := wayHere(written)
	if err != nil {
		return "", nil, err
	}
	top, rest, err := w.find(cwd, dir)
	if err != nil {
		return "", nil, speakOf(err, dir)
	}
	// The slash: a pipe is not opened, which would wait for somebody to write to it.
	if top == "" {
		place, err := os.OpenRoot(rest + "/")
		return "", place, speakOf(err, dir)
	}
	root, err := os.OpenRoot(top)
	if err != nil {
		return "", nil, err
	}
	defer root.Close()
	place, err = root.OpenRoot(rest + "/")
	err = speakOf(err, dir)
	switch {
	case err == nil:
		return top, place, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, unix.ENOTDIR):
		return "", nil, err
	}
	return "", nil, spec.Errorf(spec.ErrDenied, "%s may lead out of %s, which a sandbox writes to: %w", dir, top, err).
		WithHint("if the link in its path is yours, name where it leads to")
}

func opener(written []string) func(dir string) (*os.Root, error) {
	return func(dir string) (*os.Root, error) { return openPlace(written, dir) }
}

// wayHere gives the way from the working directory. Not from $PWD, which may name a way here
// through links: the kernel goes from where it is.
func wayHere(written []string) (w way, cwd string, err error) {
	cwd, err = os.Readlink("/proc/self/cwd")
	return way{written: written, readlink: os.Readlink}, cwd, err
}

// mayFollow refuses to follow links in what a sandbox writes to: each may lead to any file of
// the host.
func mayFollow(written []string, src string) error {
	w, cwd, err := wayHere(written)
	if err != nil {
		return err
	}
	top, at, err := w.find(cwd, src)
	if err != nil {
		return speakOf(err, src)
	}
	for _, dir := range written {
		if top == "" && (way{written: []string{at}}).top(dir) != "" {
			top = dir
		}
	}
	if top == "" {
		return nil
	}
	return spec.Errorf(spec.ErrDenied, "links in %s are not followed: a sandbox writes there, and may have made them", top).
		WithHint("without -L links are copied as links")
}

// writtenBy lists the directories of the host that sandboxes write to.
func writtenBy(list []*spec.Sandbox) []string {
	var dirs []string
	for _, sb := range list {
		for _, m := range engine.Live(sb) {
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
