package apply

import (
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/review/beneath"
	"github.com/bothy-dev/bothy/internal/review/quote"
	"github.com/bothy-dev/bothy/internal/review/record"
)

// contents returns the entries that are removed with a directory; nil for anything else.
func (p *plan) contents(i int) record.Contents {
	o := p.orders[i]
	if o.Old.Form != beneath.Directory {
		return nil
	}
	t := record.Contents{}
	for _, j := range p.ties.parts[i] {
		part := p.orders[j]
		t[part.Path[len(o.Path)+1:]] = part.Old.Mark
	}
	return t
}

// endOccupied ends an order that cannot replace a directory because of the directory's contents.
func (p *plan) endOccupied(i int) {
	o := p.orders[i]
	if o.Pick != nil || o.Old.Form != beneath.Directory {
		return
	}
	parent, name, err := p.Host.OpenParent(o.Path)
	if err == nil {
		err = checkContents(p.contents(i), parent, name, exactly)
		parent.Close()
	}
	if err != nil {
		p.endOrder(i, Failed, "the directory is still needed: "+beneath.Reason(err))
	}
}

// Ways to compare a file with its seen mark.
var (
	exactly = func(m beneath.Mark) beneath.Mark { return m }
	aside   = beneath.Mark.Aside // another name of it may have gone already
)

// checkContents fails if a directory has an entry that was not seen there, or that cannot be taken out
// of it. A missing entry is not an error.
func checkContents(t record.Contents, parent *beneath.Dir, name string, as func(beneath.Mark) beneath.Mark) error {
	return eachIn(t, parent, name, "", as, func(in *beneath.Dir, name string, st *unix.Stat_t) error {
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return nil
		}
		d, err := in.OpenDir(name)
		if err != nil {
			return err
		}
		defer d.Close()
		return d.CheckWritable(name)
	})
}

// removeTree removes a directory with the entries that were seen in it.
func removeTree(t record.Contents, parent *beneath.Dir, name string) error {
	err := eachIn(t, parent, name, "", aside, func(in *beneath.Dir, name string, st *unix.Stat_t) error {
		flags := 0
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			flags = unix.AT_REMOVEDIR
		}
		if err := unix.Unlinkat(in.FD(), name, flags); err != nil {
			return fmt.Errorf("%w: %w", errLeft, err)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("the rest of the directory is now at %s: %w", quote.Path(name), err)
	}
	return nil
}

// eachIn calls do for every entry of a directory, and then for the directory itself. It stops at
// the first entry that is not as it was seen.
func eachIn(t record.Contents, parent *beneath.Dir, name, at string, as func(beneath.Mark) beneath.Mark, do func(in *beneath.Dir, name string, st *unix.Stat_t) error) error {
	st, there, err := parent.Stat(name)
	if err != nil || !there {
		return err
	}
	if at != "" {
		if err := checkSeen(t, at, beneath.MarkOf(&st), as); err != nil {
			return err
		}
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		below, err := parent.OpenDir(name)
		if err != nil {
			return err
		}
		defer below.Close()
		names, err := below.Names()
		if err != nil {
			return err
		}
		for _, n := range names {
			if err := eachIn(t, below, n, path.Join(at, n), as, do); err != nil {
				return err
			}
		}
	}
	return do(parent, name, &st)
}

// checkSeen fails if something in the directory is not as it was seen. It ignores the times of a
// directory, which depend on its contents.
func checkSeen(t record.Contents, at string, now beneath.Mark, as func(beneath.Mark) beneath.Mark) error {
	seen, ok := t[at]
	if !ok {
		return fmt.Errorf("%s is in it: it is not selected, or was added since the review", quote.Path(at))
	}
	if now.Mode&unix.S_IFMT == unix.S_IFDIR {
		now = beneath.Mark{Inode: now.Inode, Mode: now.Mode}
		seen = beneath.Mark{Inode: seen.Inode, Mode: seen.Mode}
	}
	if as(now) != as(seen) {
		return fmt.Errorf("%s in it was changed just now", quote.Path(at))
	}
	return nil
}
