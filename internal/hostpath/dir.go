package hostpath

import (
	"errors"
	"io/fs"
	"os"

	"github.com/bothy-dev/bothy/spec"
)

// OpenDir opens a directory that the user names, to read or write files in it. top is the outermost
// directory around it that a sandbox writes to, or "".
func (g *Guard) OpenDir(path string) (top string, dir *os.Root, err error) {
	p, err := g.Find(path)
	if err != nil {
		return "", nil, err
	}
	// The slash keeps it from opening a pipe, which would wait for a writer.
	if p.Top == "" {
		dir, err = os.OpenRoot(p.Rest + "/")
		return "", dir, speakOf(err, path)
	}
	root, err := os.OpenRoot(p.Top)
	if err != nil {
		return "", nil, speakOf(err, path)
	}
	defer root.Close()
	dir, err = root.OpenRoot(p.Rest + "/")
	if err == nil {
		return p.Top, dir, nil
	}
	fd, failed := p.openTop()
	if failed != nil {
		return "", nil, speakOf(failed, path)
	}
	defer os.NewFile(uintptr(fd), p.Top).Close()
	return "", nil, p.refusal(fd, path, causeOf(err))
}

// causeOf removes the name that os.Root gives a path from its error.
func causeOf(err error) error {
	if wrong, ok := errors.AsType[*fs.PathError](err); ok {
		return wrong.Err
	}
	return err
}

// Opener returns a function that opens directories as [Guard.OpenDir] does.
func (g *Guard) Opener() func(dir string) (*os.Root, error) {
	return func(dir string) (*os.Root, error) {
		_, place, err := g.OpenDir(dir)
		return place, err
	}
}

// MayFollow refuses to follow the links in a path, and in the tree below it, if a sandbox writes
// there: each may lead to any file of the host.
func (g *Guard) MayFollow(path string) error {
	p, err := g.Find(path)
	if err != nil {
		return err
	}
	top := p.Top
	for _, d := range g.written {
		if top == "" && within(p.Rest, d.Path) {
			top = d.Path
		}
	}
	if top == "" {
		return nil
	}
	return spec.Errorf(spec.ErrDenied, "links in %s are not followed: a sandbox writes there, and may have made them", top).
		WithHint("without -L links are copied as links")
}
