package review

import (
	"errors"
	"io/fs"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/spec"
)

// Siblings are two workspaces over the same directory of the host, for example those of a sandbox and of
// its fork.
type Siblings struct {
	a, b  *look
	ofA   map[string]Change // the changes of each, by path
	ofB   map[string]Change
	reads Reader
}

// Against opens a workspace for a comparison with another one over the same directory. The caller closes
// it.
func (w Workspace) Against(other Workspace) (_ *Siblings, err error) {
	if w.Source != other.Source {
		return nil, spec.Errorf(spec.ErrUsage, "%s and %s are different directories", Quote(w.Source), Quote(other.Source))
	}
	s := &Siblings{}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if s.a, s.ofA, err = w.byPath(); err != nil {
		return nil, err
	}
	if s.b, s.ofB, err = other.byPath(); err != nil {
		return nil, err
	}
	s.reads = Reader{l: s.a, old: func(p string) *dir { return side(s.a, s.ofA, p) }, now: func(p string) *dir { return side(s.b, s.ofB, p) }}
	return s, nil
}

// byPath opens a workspace and finds its changes.
func (w Workspace) byPath() (*look, map[string]Change, error) {
	l, err := w.open()
	if err != nil {
		return nil, nil, err
	}
	list, err := l.changes()
	changes := make(map[string]Change, len(list))
	for _, c := range list {
		changes[c.Path] = c
	}
	return l, changes, err
}

// side returns where a path is read: in the layer that changed it, or on the host.
func side(l *look, changes map[string]Change, p string) *dir {
	if _, ok := changes[p]; ok {
		return l.upper
	}
	return l.host
}

// Close closes both workspaces.
func (s *Siblings) Close() {
	for _, l := range []*look{s.a, s.b} {
		if l != nil {
			l.close()
		}
	}
}

// Text compares the lines of both.
func (s *Siblings) Text(c Change) (Text, error) { return s.reads.Text(c) }

// Changes lists the other's differences from this one. Flags are those that an apply of the other
// would have: a path that is as on the host brings nothing there.
func (s *Siblings) Changes() ([]Change, error) {
	paths := maps.Clone(s.ofA)
	maps.Copy(paths, s.ofB)
	l := &look{Workspace: s.b.Workspace}
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		a, inA := s.ofA[p]
		b, inB := s.ofB[p]
		c := Change{Path: p, Old: a.New, New: b.New}
		if !inA {
			c.Old = b.Old
		}
		if !inB {
			c.New = a.Old
		}
		same, err := s.same(c)
		if errors.Is(err, fs.ErrNotExist) { // it was removed just now
			same, err = false, nil
		}
		if err != nil {
			return nil, err
		}
		if same && (c.Old.Mode == c.New.Mode || c.New.Form == Nothing) {
			continue
		}
		if c.Kind = kindOf(c.Old, c.New); same {
			c.Kind = Mode
		}
		if c.Flags = b.Flags; !inB && a.Kept() {
			c.Flags = a.Flags
		}
		l.list = append(l.list, c)
	}
	l.imply()
	return l.list, nil
}

// same reports whether both have the same at a path, apart from permissions.
func (s *Siblings) same(c Change) (bool, error) {
	switch {
	case c.Old.Form != c.New.Form:
		return false, nil
	case c.New.Form == Link:
		return c.Old.Target == c.New.Target, nil
	case c.New.Form != File:
		return true, nil
	case c.Old.Size != c.New.Size:
		return false, nil
	}
	f, err := s.reads.old(c.Path).open(c.Path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return false, err
	}
	defer f.Close()
	g, err := s.reads.now(c.Path).open(c.Path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return false, err
	}
	defer g.Close()
	return sameData(f, g)
}
