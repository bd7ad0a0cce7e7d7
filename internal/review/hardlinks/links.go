// Package hardlinks gives each name of a host file with several names its own file in a layer.
//
// All names of one host file share an inode number in an overlay until one of them is written to.
// The file server of the sandbox keeps one set of open files for each inode number. It would go
// on writing the data of one name to another. So, before any program in the sandbox runs, every
// name but one gets its own file in the layer, where the kernel would put it at the first write.
// The record says that the host has the same content. So these files do not count as
// changes, and leave the layer again when it is not mounted.
package hardlinks

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/review/beneath"
	"github.com/bothy-dev/bothy/internal/review/quote"
	"github.com/bothy-dev/bothy/internal/review/record"
	"github.com/bothy-dev/bothy/spec"
)

// Limits of the copies at a start. The kernel makes each copy durable by itself, and the time
// counts towards the time of the start.
const (
	maxCut      = 1 << 14 // files
	maxCutBytes = 1 << 30
	maxCutTime  = 30 * time.Second
)

// Cut gives each name of a host file with several names its own file. The layer is mounted
// over lower, both are seen at merged, and nothing uses it yet. The caller makes sure that no
// apply or discard runs meanwhile.
func Cut(w review.Workspace, lower, merged string) error {
	end := time.Now().Add(maxCutTime)
	return CutUntil(w, lower, merged, func() bool { return time.Now().After(end) })
}

func CutUntil(w review.Workspace, lower, merged string, late func() bool) error {
	w.Source = lower // another directory may have its path by now
	l, err := w.OpenView()
	if err != nil {
		return err
	}
	defer l.Close()
	top, err := beneath.OpenTop(merged)
	if err != nil {
		return err
	}
	defer top.Close()
	c := &cutting{View: l, merged: top, most: maxCut, mostBytes: maxCutBytes, late: late}
	if err := c.cutAll(); err != nil {
		return fmt.Errorf("give names of the same file a file each: %w", err)
	}
	return nil
}

// cutting is one run of Cut.
type cutting struct {
	*review.View
	merged    *beneath.Dir
	most      int
	mostBytes int64
	late      func() bool
}

func (c *cutting) cutAll() error {
	changed := c.forgetGone()
	groups, err := c.groups()
	if err != nil {
		return err
	}
	if len(groups) == 0 {
		if changed {
			err = c.Layer.Write(c.Record)
		}
		return err
	}
	files, err := c.checkFit(groups)
	if err != nil {
		return err
	}
	if err := c.announce(groups); err != nil {
		return err
	}
	if err := c.copyAll(groups, files); err != nil {
		return err
	}
	return c.Layer.Write(c.Record)
}

// forgetGone drops names that were cut at earlier starts and are gone from the layer. It records
// copies that an earlier start made but did not record.
func (c *cutting) forgetGone() (changed bool) {
	for _, k := range slices.Clone(c.Record.Paths) {
		if !k.Cut {
			continue
		}
		p, err := quote.Parse(k.Path)
		if err != nil {
			continue
		}
		mark, err := beneath.MarkAt(c.Upper, p)
		switch {
		case beneath.IsMissing(err):
			c.Record.Drop(p)
		case err == nil && k.Copying:
			k.Layer, k.Copying = mark, false
			c.Record.Set(p, k)
		default:
			continue
		}
		changed = true
	}
	return changed
}

// announce writes the coming copies to the record. If the process is killed or fails, no such
// copy counts as a change of the sandbox.
func (c *cutting) announce(groups []linked) error {
	for _, g := range groups {
		for i, p := range g.paths {
			if was, err := beneath.MarkAt(c.Host, p); err == nil {
				c.Record.Set(p, record.State{Host: was, Cut: true, Copying: i > 0})
			}
		}
	}
	return c.Layer.Write(c.Record)
}

func (c *cutting) copyAll(groups []linked, files int) error {
	done := 0
	for _, g := range groups {
		for _, p := range g.paths[1:] {
			if c.late() {
				return tooMany("%d of %d files were copied in %s, and no more time is", groups, done, files, maxCutTime)
			}
			if err := c.cutOne(p); err != nil {
				return err
			}
			done++
		}
	}
	return nil
}

// checkFit fails if the copies would be too many or too large, and counts the files.
func (c *cutting) checkFit(groups []linked) (files int, err error) {
	bytes := int64(0)
	for _, g := range groups {
		n := len(g.paths) - 1
		files, bytes = files+n, bytes+int64(n)*g.bytes
	}
	if files > c.most || bytes > c.mostBytes {
		err = tooMany("%d files with %d MiB would be copied, at most %d with %d MiB are", groups, files, bytes>>20, c.most, c.mostBytes>>20)
	}
	return files, err
}

// tooMany returns the error for that, with the counts.
func tooMany(count string, groups []linked, counted ...any) error {
	g := slices.MaxFunc(groups, func(a, b linked) int { return int(min(max(a.bytes-b.bytes, -1), 1)) })
	return spec.Errorf(spec.ErrSandbox, "too many are hard links of each other, such as %s and %s: %s",
		quote.Path(g.paths[0]), quote.Path(g.paths[1]), fmt.Sprintf(count, counted...)).
		WithHint("make copies of them, give the sandbox a directory of its own where they lie (--private DIR), or use --workspace %s or %s", spec.WorkspaceLive, spec.WorkspaceClone)
}

// cutOne has the kernel copy a file into the layer, and records the copy. A file that the sandbox
// could not write to either stays.
func (c *cutting) cutOne(p string) error {
	was, err := beneath.MarkAt(c.Host, p)
	if err == nil {
		err = copyUp(c.merged, p)
	}
	if mayStay(err) {
		c.Record.Drop(p)
		return nil
	}
	if err != nil {
		return err
	}
	now, err := beneath.MarkAt(c.Upper, p)
	if err != nil {
		return err
	}
	c.Record.Set(p, record.State{Host: was, Layer: now, Cut: true})
	return nil
}

// copyUp makes an overlay copy a file up, as opening it for writing does.
func copyUp(d *beneath.Dir, p string) error {
	f, err := d.Open(p, unix.O_WRONLY|unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	return f.Close()
}

// mayStay reports whether a copy failed because the file is not writable, or because the host just
// removed it or replaced it by something else.
func mayStay(err error) bool {
	return beneath.IsMissing(err) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOVERFLOW) || errors.Is(err, unix.EROFS)
}

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
