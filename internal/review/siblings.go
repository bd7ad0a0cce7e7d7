package review

import (
	"errors"
	"io/fs"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/review/beneath"
	"github.com/bothy-dev/bothy/internal/review/quote"
	"github.com/bothy-dev/bothy/spec"
)

// Siblings are two workspaces over the same directory of the host, for example those of a sandbox and of
// its fork.
type Siblings struct {
	a, b *View
	ofA  map[string]Change // the changes of each, by path
	ofB  map[string]Change
}

// Against opens a workspace for a comparison with another one over the same directory. The caller closes
// it.
func (w Workspace) Against(other Workspace) (_ *Siblings, err error) {
	if w.Source != other.Source {
		return nil, spec.Errorf(spec.ErrUsage, "%s and %s are different directories", quote.Path(w.Source), quote.Path(other.Source))
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
	return s, nil
}

// byPath opens a workspace and finds its changes.
func (w Workspace) byPath() (*View, map[string]Change, error) {
	l, err := w.OpenView()
	if err != nil {
		return nil, nil, err
	}
	list, err := l.FindChanges()
	changes := make(map[string]Change, len(list))
	for _, c := range list {
		changes[c.Path] = c
	}
	return l, changes, err
}

// directoryOf returns where a path is read: in the layer that changed it, or on the host.
func directoryOf(l *View, changes map[string]Change, p string) *beneath.Dir {
	if _, ok := changes[p]; ok {
		return l.Upper
	}
	return l.Host
}

// Close closes both workspaces.
func (s *Siblings) Close() {
	for _, l := range []*View{s.a, s.b} {
		if l != nil {
			l.Close()
		}
	}
}

// Old returns the directory to read a path of this workspace in.
func (s *Siblings) Old(p string) *beneath.Dir { return directoryOf(s.a, s.ofA, p) }

// Now returns the directory to read a path of the other workspace in.
func (s *Siblings) Now(p string) *beneath.Dir { return directoryOf(s.b, s.ofB, p) }

// Changes lists the other's differences from this one. Flags are those that an apply of the other
// would have: a path that is as on the host brings nothing there.
func (s *Siblings) Changes() ([]Change, error) {
	paths := maps.Clone(s.ofA)
	maps.Copy(paths, s.ofB)
	l := &View{Workspace: s.b.Workspace}
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
		same, err := s.hasSame(c)
		if errors.Is(err, fs.ErrNotExist) { // it was removed just now
			same, err = false, nil
		}
		if err != nil {
			return nil, err
		}
		if same && (c.Old.Mode == c.New.Mode || c.New.Form == beneath.Nothing) {
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
	l.markImplied()
	return l.list, nil
}

// hasSame reports whether both have the same at a path, apart from permissions.
func (s *Siblings) hasSame(c Change) (bool, error) {
	switch {
	case c.Old.Form != c.New.Form:
		return false, nil
	case c.New.Form == beneath.Link:
		return c.Old.Target == c.New.Target, nil
	case c.New.Form != beneath.File:
		return true, nil
	case c.Old.Size != c.New.Size:
		return false, nil
	}
	f, err := s.Old(c.Path).Open(c.Path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return false, err
	}
	defer f.Close()
	g, err := s.Now(c.Path).Open(c.Path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return false, err
	}
	defer g.Close()
	return beneath.SameData(f, g)
}
