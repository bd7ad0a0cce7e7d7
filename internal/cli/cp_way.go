package cli

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// A way leads to a place of the host, and may lead through directories that a sandbox
// writes to, in which any name may be a link the next moment. So it goes one name at a
// time, and looks at none in there: where a path ends says nothing of what it led through.
type way struct {
	written  []string                          // directories that sandboxes write to, no link in their paths
	readlink func(name string) (string, error) // as os.Readlink
}

// maxLinks is how many links the kernel follows in a path.
const maxLinks = 40

// find gives the directory that a sandbox writes to on the way from cwd, in whose path
// there is no link, to path, and the rest of the way in there, none of it followed. If there
// is none rest is the whole, without a link in it. Like the kernel it goes up from where a
// link led to, not from where it stands.
func (w way) find(cwd, path string) (top, rest string, err error) {
	at, todo := cwd, strings.Split(path, "/")
	if filepath.IsAbs(path) {
		at = "/"
	}
	if !filepath.IsAbs(at) { // the kernel says so of a directory that is out of reach
		return "", "", &fs.PathError{Op: "open", Path: at, Err: fs.ErrNotExist}
	}
	for links := 0; len(todo) > 0; {
		name := todo[0]
		if name == ".." { // what is above such a directory is not in it: the inside has no say
			at = filepath.Dir(at)
		}
		if name == "" || name == "." || name == ".." {
			todo = todo[1:]
			continue
		}
		if w.top(at) != "" {
			break
		}
		todo = todo[1:]
		target, err := w.readlink(filepath.Join(at, name))
		switch {
		case errors.Is(err, unix.EINVAL): // it is no link
			at = filepath.Join(at, name)
			continue
		case err != nil:
			return "", "", err
		}
		if links++; links > maxLinks {
			return "", "", &fs.PathError{Op: "open", Path: path, Err: unix.ELOOP}
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	if top = w.top(at); top == "" {
		return "", at, nil
	}
	if rest, err = filepath.Rel(top, at); err != nil {
		return "", "", err
	}
	return top, strings.Join(append([]string{rest}, todo...), "/"), nil
}

// top gives the directory that a sandbox writes to in which a place is: the outermost, for
// in it the others may be moved.
func (w way) top(at string) string {
	top := ""
	for _, dir := range w.written {
		rel, err := filepath.Rel(dir, at)
		if err == nil && filepath.IsLocal(rel) && (top == "" || len(dir) < len(top)) {
			top = dir
		}
	}
	return top
}
