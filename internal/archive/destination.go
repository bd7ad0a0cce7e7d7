package archive

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Destination opens the directory into which a copy of name goes if the user asks for path, as cp does.
// It also returns the copy's new name, or "" if the name stays. The name "." means the contents of a
// directory, which Destination makes if it is missing.
//
// open opens a directory; for anything else it returns unix.ENOTDIR. Only open looks at the path,
// because the path may change meanwhile; so Destination makes a directory in an opened one.
func Destination(path, name string, open func(dir string) (*os.Root, error)) (root *os.Root, rename string, err error) {
	if root, err = open(path); err == nil {
		if name == "." {
			return root, "", nil
		}
		return root, name, nil
	}
	missing := errors.Is(err, fs.ErrNotExist)
	above, last := parent(path)
	if !missing && !errors.Is(err, unix.ENOTDIR) || last == "" {
		return nil, "", err
	}
	if root, err = open(above); err != nil {
		return nil, "", noDirectory(above, err)
	}
	switch {
	case missing && name == ".":
		defer root.Close()
		root, err = makeIn(root, last)
		return root, "", err
	case name == "." || !missing && strings.HasSuffix(path, "/"):
		err = noDirectory(path, unix.ENOTDIR)
	case strings.HasSuffix(path, "/"):
		err = noDirectory(path, fs.ErrNotExist)
	default:
		return root, last, nil
	}
	_ = root.Close()
	return nil, "", err
}

// noDirectory returns the error for a path that is missing, or is not a directory.
func noDirectory(path string, err error) error {
	if len(path) > 1 {
		path = strings.TrimRight(path, "/")
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &errMissing{"directory " + path}
	case errors.Is(err, unix.ENOTDIR):
		return fmt.Errorf("%s is not a directory", path)
	}
	return err
}

func makeIn(above *os.Root, name string) (*os.Root, error) {
	if err := above.Mkdir(name, 0o755); err != nil {
		return nil, err
	}
	return above.OpenRoot(name + "/") // the slash: it does not wait for a pipe
}

// parent splits a path before its last name. The name is empty if no file could have it.
func parent(path string) (dir, last string) {
	for strings.HasSuffix(path, "/") || strings.HasSuffix(path, "/.") {
		path = strings.TrimSuffix(path[:len(path)-1], "/")
	}
	i := strings.LastIndexByte(path, '/')
	if dir, last = path[:i+1], path[i+1:]; last == "." || last == ".." {
		last = ""
	}
	if dir == "" {
		dir = "."
	}
	return dir, last
}
