package review

import (
	"encoding/json"
	"fmt"
	"path"

	"golang.org/x/sys/unix"
)

// contents are the entries seen in a directory that something else replaces, by relative path.
// They are removed together, and only if the directory has nothing else.
type contents map[string]Mark

// MarshalJSON writes paths as Quote does: they need not be text.
func (t contents) MarshalJSON() ([]byte, error) {
	m := make(map[string]Mark, len(t))
	for p, mark := range t {
		m[Quote(p)] = mark
	}
	return json.Marshal(m)
}

// UnmarshalJSON reads the form that MarshalJSON writes.
func (t *contents) UnmarshalJSON(b []byte) error {
	var m map[string]Mark
	if err := json.Unmarshal(b, &m); err != nil {
		return err
	}
	*t = make(contents, len(m))
	for quoted, mark := range m {
		p, err := Unquote(quoted)
		if err != nil {
			return err
		}
		(*t)[p] = mark
	}
	return nil
}

// contents returns the entries that are removed with a directory; nil for anything else.
func (p *plan) contents(i int) contents {
	o := p.orders[i]
	if o.Old.Form != Directory {
		return nil
	}
	t := contents{}
	for _, j := range p.ties.parts[i] {
		part := p.orders[j]
		t[part.Path[len(o.Path)+1:]] = part.Old.Mark
	}
	return t
}

// occupied ends an order that cannot replace a directory because of the directory's contents.
func (p *plan) occupied(i int) {
	o := p.orders[i]
	if o.Pick != nil || o.Old.Form != Directory {
		return
	}
	parent, name, err := p.host.parent(o.Path)
	if err == nil {
		err = p.contents(i).unlike(parent, name, exactly)
		parent.close()
	}
	if err != nil {
		p.end(i, Failed, "the directory is still needed: "+reason(err))
	}
}

// Ways to compare a file with its seen mark.
var (
	exactly = func(m Mark) Mark { return m }
	aside   = Mark.aside // another name of it may have gone already
)

// unlike fails if a directory has an entry that was not seen there, or that cannot be taken out
// of it. A missing entry is not an error.
func (t contents) unlike(parent *dir, name string, as func(Mark) Mark) error {
	return t.each(parent, name, "", as, func(in *dir, name string, st *unix.Stat_t) error {
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return nil
		}
		d, err := in.sub(name)
		if err != nil {
			return err
		}
		defer d.close()
		return d.writable(name)
	})
}

// remove removes a directory with the entries that were seen in it.
func (t contents) remove(parent *dir, name string) error {
	err := t.each(parent, name, "", aside, func(in *dir, name string, st *unix.Stat_t) error {
		flags := 0
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			flags = unix.AT_REMOVEDIR
		}
		if err := unix.Unlinkat(in.fd(), name, flags); err != nil {
			return fmt.Errorf("%w: %w", errLeft, err)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("what is left of the directory lies in %s: %w", Quote(name), err)
	}
	return nil
}

// each calls do for every entry of a directory, and then for the directory itself. It stops at
// the first entry that is not as it was seen.
func (t contents) each(parent *dir, name, at string, as func(Mark) Mark, do func(in *dir, name string, st *unix.Stat_t) error) error {
	st, there, err := parent.stat(name)
	if err != nil || !there {
		return err
	}
	if at != "" {
		if err := t.has(at, markOf(&st), as); err != nil {
			return err
		}
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		below, err := parent.sub(name)
		if err != nil {
			return err
		}
		defer below.close()
		names, err := below.names()
		if err != nil {
			return err
		}
		for _, n := range names {
			if err := t.each(below, n, path.Join(at, n), as, do); err != nil {
				return err
			}
		}
	}
	return do(parent, name, &st)
}

// has fails if something in the directory is not as it was seen. It ignores the times of a
// directory, which depend on its contents.
func (t contents) has(at string, now Mark, as func(Mark) Mark) error {
	seen, ok := t[at]
	if !ok {
		return fmt.Errorf("%s is in it, and is not to go, or came just now", Quote(at))
	}
	if now.Mode&unix.S_IFMT == unix.S_IFDIR {
		now = Mark{Inode: now.Inode, Mode: now.Mode}
		seen = Mark{Inode: seen.Inode, Mode: seen.Mode}
	}
	if as(now) != as(seen) {
		return fmt.Errorf("%s in it was changed just now", Quote(at))
	}
	return nil
}
