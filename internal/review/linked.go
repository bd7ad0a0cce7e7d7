package review

import (
	"maps"
	"path"
	"slices"

	"golang.org/x/sys/unix"
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
	err = c.host.eachFile(c.Over, func(d *dir, at string, e dirent) {
		if known && !twice[e.number] {
			return
		}
		st, there, err := d.stat(e.name)
		if err != nil || !there || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink < 2 {
			return
		}
		if p := path.Join(at, e.name); !c.layerHas(p) && c.shows(p) {
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

// shows reports whether the sandbox sees the host's file at a path.
func (c *cutting) shows(p string) bool {
	hidden, err := c.hides(p)
	return err == nil && !hidden
}

// numbers returns the inode numbers that occur more than once in the directories. known is false
// if the host's file system may report other numbers in directories than for the files.
func (c *cutting) numbers() (twice map[uint64]bool, known bool, err error) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(c.host.fd(), &fs); err != nil {
		return nil, false, err
	}
	switch fs.Type {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.F2FS_SUPER_MAGIC:
	default:
		return nil, false, nil
	}
	var all []uint64
	err = c.host.eachFile(c.Over, func(_ *dir, _ string, e dirent) { all = append(all, e.number) })
	slices.Sort(all)
	twice = map[uint64]bool{}
	for i := 1; i < len(all); i++ {
		if all[i] == all[i-1] {
			twice[all[i]] = true
		}
	}
	return twice, true, err
}
