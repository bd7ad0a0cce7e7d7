package review

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

// Names of one file of the host's have one number in an overlay until one of them is
// written to, and what serves the overlay to the inside keeps one set of open files for one
// number: it would go on writing to one name what is meant for another. So, before anything
// inside runs, all of them but one get a file of their own in the layer, where the kernel
// would put one at the first write. The record says that the host has the same, so that they
// are no changes, and leave the layer again when it is not mounted.

// What is copied for that at a start.
const (
	maxCut      = 1 << 16 // files
	maxCutBytes = 1 << 30
)

// CutLinks gives names of the same file of the host's a file each. The layer is mounted over
// lower, both are seen at merged, and nothing uses it yet. The caller sees to it that nobody
// applies or discards meanwhile.
func (w Workspace) CutLinks(lower, merged string) error {
	w.Source = lower // it may be another directory by now that lies at its path
	l, err := w.open()
	if err != nil {
		return err
	}
	defer l.close()
	top, err := openTop(merged)
	if err != nil {
		return err
	}
	defer top.close()
	c := &cutting{look: l, merged: top, most: maxCut, mostBytes: maxCutBytes}
	if err := c.all(); err != nil {
		return fmt.Errorf("give names of the same file a file each: %w", err)
	}
	return nil
}

// cutting is one run of CutLinks.
type cutting struct {
	*look
	merged    *dir
	most      int
	mostBytes int64
}

func (c *cutting) all() error {
	groups, err := c.groups()
	if err != nil || len(groups) == 0 {
		return err
	}
	if err := c.fit(groups); err != nil {
		return err
	}
	for _, g := range groups {
		if was, err := markAt(c.host, g.paths[0]); err == nil {
			c.record.set(g.paths[0], known{Host: was, Cut: true}) // what is done to the others changes it
		}
		for _, p := range g.paths[1:] {
			if err := c.cut(p); err != nil {
				return err
			}
		}
	}
	return c.Layer.write(c.record)
}

// linked are names of one file of the host's, at least two.
type linked struct {
	paths []string // sorted
	bytes int64    // on the disk
}

// fit wants what is copied to be little enough.
func (c *cutting) fit(groups []linked) error {
	files, bytes := 0, int64(0)
	for _, g := range groups {
		n := len(g.paths) - 1
		files, bytes = files+n, bytes+int64(n)*g.bytes
	}
	if files <= c.most && bytes <= c.mostBytes {
		return nil
	}
	g := slices.MaxFunc(groups, func(a, b linked) int { return int(min(max(a.bytes-b.bytes, -1), 1)) })
	return spec.Errorf(spec.ErrSandbox, "too many are hard links of each other, such as %s and %s: %d files with %d MiB would be copied, at most %d with %d MiB are",
		Quote(g.paths[0]), Quote(g.paths[1]), files, bytes>>20, c.most, c.mostBytes>>20).
		WithHint("make copies of them, give the sandbox a directory of its own where they lie (--private DIR), or use --workspace %s or %s", spec.WorkspaceLive, spec.WorkspaceClone)
}

// cut has the kernel copy a file into the layer, and notes that. One that the inside could
// not write to either stays.
func (c *cutting) cut(p string) error {
	was, err := markAt(c.host, p)
	if err != nil {
		return ignoreGone(err)
	}
	f, err := c.merged.open(p, unix.O_WRONLY|unix.O_NONBLOCK)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOVERFLOW) || errors.Is(err, unix.EROFS) {
		return nil
	}
	if err != nil {
		return ignoreGone(err)
	}
	f.Close()
	now, err := markAt(c.upper, p)
	if err != nil {
		return err
	}
	c.record.set(p, known{Host: was, Layer: now, Cut: true})
	return nil
}

func markAt(d *dir, p string) (Mark, error) {
	in, name, err := d.parent(p)
	if err != nil {
		return Mark{}, err
	}
	defer in.close()
	st, there, err := in.stat(name)
	if err == nil && !there {
		err = unix.ENOENT
	}
	return markOf(&st), err
}

// ignoreGone is no error for what the host removed, or made another thing of, just now.
func ignoreGone(err error) error {
	if hidden(err) {
		return nil
	}
	return err
}

// groups finds names of the same file that the layer has not.
func (c *cutting) groups() ([]linked, error) {
	twice, known, err := c.numbers()
	if err != nil || known && len(twice) == 0 {
		return nil, err
	}
	type file struct{ dev, number uint64 }
	found := map[file]*linked{}
	err = c.merged.eachFile(c.Over, func(d *dir, at string, e dirent) {
		if known && !twice[e.number] {
			return
		}
		st, there, err := d.stat(e.name)
		if err != nil || !there || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink < 2 {
			return
		}
		if p := path.Join(at, e.name); !c.layerHas(p) {
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

// numbers are those that more than one name has, as the directories say. It is not known
// where the host's file system may say something else there than of the file itself.
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
	err = c.merged.eachFile(c.Over, func(_ *dir, _ string, e dirent) { all = append(all, e.number) })
	slices.Sort(all)
	twice = map[uint64]bool{}
	for i := 1; i < len(all); i++ {
		if all[i] == all[i-1] {
			twice[all[i]] = true
		}
	}
	return twice, true, err
}
