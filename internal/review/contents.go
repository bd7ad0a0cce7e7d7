package review

import (
	"encoding/json"
	"fmt"
	"path"

	"golang.org/x/sys/unix"
)

// contents are what was seen in a directory that something else takes the place of, by path in
// it. They go as a whole, and only if nothing else is in it.
type contents map[string]Mark

// MarshalJSON writes paths as Quote does: they need not be text.
func (t contents) MarshalJSON() ([]byte, error) {
	m := make(map[string]Mark, len(t))
	for p, mark := range t {
		m[Quote(p)] = mark
	}
	return json.Marshal(m)
}

// UnmarshalJSON reads that.
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

// contents is what goes with a directory; nil of what is none.
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

// occupied ends an order for something that cannot take the place of a directory, because of
// what is in that.
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

// How a file is compared with what was seen.
var (
	exactly = func(m Mark) Mark { return m }
	aside   = Mark.aside // another name of it may have gone already
)

// unlike is an error if a directory has something in it that was not seen there, or that
// cannot be taken out of it. That something has gone is none.
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

// remove removes a directory with what was seen in it.
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

// each does something with all that is in a directory, and last with that, as long as all of
// it is as it was seen.
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

// has is an error if something in the directory is not as it was seen. The times of a
// directory are those of what is in it.
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
