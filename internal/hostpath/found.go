package hostpath

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

// Found returns the identity in a status.
func Found(m spec.Mounted) Identity {
	return Identity{Device: m.Device, Inode: m.Inode, Birth: m.Birth}
}

// LookUp returns the directory at a path without links, or nil for a file.
func LookUp(path string) (*spec.Mounted, error) {
	f, err := OpenReal(path, unix.O_PATH)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s, err := lookBelow(int(f.Fd()), "", unix.AT_EMPTY_PATH)
	if err != nil || !s.isKind(unix.S_IFDIR) {
		return nil, err
	}
	return &spec.Mounted{Source: path, Device: s.id.Device, Inode: s.id.Inode, Birth: s.id.Birth}, nil
}

// Silence reports that the file system of a mounted directory does not answer.
const Silence = "does not answer"

// Gone reports that the path of a mounted directory does not exist.
const Gone = "is gone"

// Replaced returns how a mounted directory was lost: another one is at its path, or none. It is empty if
// the directory is still there, or if that is unknown.
func Replaced(m spec.Mounted) string {
	if Answers(m.Source) != nil {
		return Silence
	}
	now, err := LookUp(m.Source)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Gone
	case errors.Is(err, spec.ErrDenied):
		return "leads elsewhere now"
	case err != nil:
		return ""
	case now == nil:
		return "is a file now"
	case Found(*now) != Found(m):
		return "is another directory now"
	}
	return ""
}

// SameFile reports whether two paths lead to the same file or directory, by links and bind mounts too.
func SameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// Below reports whether a path leads to a directory or to a path below it, by links and bind
// mounts too.
func Below(dir, path string) (bool, error) {
	at, err := lookAt(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	p, err := NewGuard([]Directory{{Path: dir, Identity: at.id}}).Find(path)
	return p.within, err
}
