package hostroot

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

// hideDir covers a directory of the host that the tree may show: one in a directory of the host's programs,
// such as a state directory in /opt. dir has no links; empty hides nothing.
func (t *tree) hideDir(dir string) error {
	if dir == "" {
		return nil
	}
	shown, err := t.showsDir(dir)
	if err != nil || !shown {
		return err
	}
	if err := t.coverFile(t.path(dir)); err != nil {
		return err
	}
	if shown, err = t.showsDir(dir); err == nil && shown {
		err = spec.Errorf(spec.ErrSandbox, "its parents were changed meanwhile")
	}
	if err != nil {
		return fmt.Errorf("hide %s: %w", dir, err)
	}
	return nil
}

// showsDir reports whether the tree has the host's directory dir at its path, or cannot rule it
// out. It follows no link: dir has none, so a directory behind one in the tree is another.
func (t *tree) showsDir(dir string) (bool, error) {
	var want, have unix.Stat_t
	if err := unix.Lstat(dir, &want); err != nil {
		return false, &os.PathError{Op: "lstat", Path: dir, Err: err}
	}
	at, err := t.openDir(t.fd, ".")
	if err != nil {
		return false, err
	}
	defer func() { unix.Close(at) }()
	for name := range strings.SplitSeq(strings.Trim(dir, "/"), "/") {
		next, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == unix.ENOENT || err == unix.ENOTDIR || err == unix.ELOOP {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("look for %s in the template: %w", dir, err)
		}
		unix.Close(at)
		at = next
	}
	if err := unix.Fstat(at, &have); err != nil {
		return false, err
	}
	return have.Dev == want.Dev && have.Ino == want.Ino, nil
}
