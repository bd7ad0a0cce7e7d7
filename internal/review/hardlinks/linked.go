package hardlinks

import (
	"maps"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/review/beneath"
)

// linked are names of one file of the host, at least two.
type linked struct {
	paths []string // sorted
	bytes int64    // on the disk
}

// groups finds names of the same file that the layer does not have. It searches only below the
// layer: the sandbox may have made more files than a start can search.
func (c *cutting) groups() ([]linked, error) {
	twice, known, err := c.numbers()
	if err != nil || known && len(twice) == 0 {
		return nil, err
	}
	type file struct{ dev, number uint64 }
	found := map[file]*linked{}
	err = c.Host.EachFile(c.Over, func(d *beneath.Dir, at string, e beneath.DirEntry) {
		if known && !twice[e.Inode] {
			return
		}
		st, there, err := d.Stat(e.Name)
		if err != nil || !there || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink < 2 {
			return
		}
		if p := path.Join(at, e.Name); !c.LayerHas(p) && c.isShown(p) {
			f := file{st.Dev, st.Ino}
			if found[f] == nil {
				found[f] = &linked{bytes: st.Blocks * 512}
			}
			found[f].paths = append(found[f].paths, p)
		}
	})
	var list []linked
	for g := range maps.Values(found) {
		if len(g.paths) > 1 {
			slices.Sort(g.paths)
			list = append(list, *g)
		}
	}
	return list, err
}

// isShown reports whether the sandbox sees the host's file at a path.
func (c *cutting) isShown(p string) bool {
	hidden, err := c.Hides(p)
	return err == nil && !hidden
}

// numbers returns the inode numbers that occur more than once in the directories. known is false
// if the host's file system may report other numbers in directories than for the files.
func (c *cutting) numbers() (twice map[uint64]bool, known bool, err error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(c.Host.FD(), &st); err != nil {
		return nil, false, err
	}
	switch st.Type {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.F2FS_SUPER_MAGIC:
	default:
		return nil, false, nil
	}
	var all []uint64
	err = c.Host.EachFile(c.Over, func(_ *beneath.Dir, _ string, e beneath.DirEntry) { all = append(all, e.Inode) })
	slices.Sort(all)
	twice = map[uint64]bool{}
	for i := 1; i < len(all); i++ {
		if all[i] == all[i-1] {
			twice[all[i]] = true
		}
	}
	return twice, true, err
}
