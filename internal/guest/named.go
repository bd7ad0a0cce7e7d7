package guest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// makeNamedLinks makes links at the paths by which shared directories were named, and returns which of
// the paths lead there. Init makes them as a process inside, so it can reach nothing that
// programs inside could not.
func makeNamedLinks(named []spec.Named, mounts []wire.Place) []bool {
	led := make([]bool, len(named))
	for i, n := range named {
		led[i] = makeNamedLink(n, mounts) == nil
	}
	return led
}

// makeNamedLink makes one link, if its path is free and in a part that belongs to the sandbox alone. It
// returns an error unless the path leads to the target.
func makeNamedLink(n spec.Named, mounts []wire.Place) error {
	if !filepath.IsAbs(n.Path) || filepath.Clean(n.Path) != n.Path {
		return fs.ErrInvalid
	}
	if _, err := os.Lstat(n.Path); errors.Is(err, fs.ErrNotExist) {
		dir := filepath.Dir(n.Path)
		if !isOwn(dir, mounts) {
			return fs.ErrPermission
		}
		if _, err := makeDirs(dir); err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Stat(dir, &st); err != nil {
			return err
		}
		if err := os.Symlink(n.Target, n.Path); err != nil {
			return err
		}
		if err := os.Lchown(n.Path, int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	at, err := os.Stat(n.Path)
	if err != nil {
		return err
	}
	target, err := os.Stat(n.Target)
	if err == nil && !os.SameFile(at, target) {
		err = fs.ErrExist
	}
	return err
}
