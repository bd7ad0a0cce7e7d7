package review

import (
	"path"
	"slices"

	"github.com/bothy-dev/bothy/internal/review/beneath"
)

// Unlike returns the given paths of the layer at which it differs from the host now. A file that
// was copied up unchanged, or rewritten with the same content, is not a change of the project's.
// A path that cannot be compared counts as different.
func (w Workspace) Unlike(paths []string) ([]string, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	l, err := w.OpenView()
	if err != nil {
		return nil, err
	}
	defer l.Close()
	if l.Upper == nil {
		return paths, nil
	}
	return slices.DeleteFunc(slices.Clone(paths), l.isLike), nil
}

// isLike reports whether the layer and the host have the same at a path.
func (l *View) isLike(at string) bool {
	upper, name, err := l.Upper.OpenParent(at)
	if err != nil {
		return false
	}
	defer upper.Close()
	host, err := l.Host.OpenDir(path.Dir(at))
	if err != nil {
		host = nil // it has no such directory, or none that can be opened
	}
	defer host.Close()
	st, there, err := upper.Stat(name)
	if err != nil || !there {
		return false
	}
	was, err := host.Entry(name)
	if err != nil {
		return false
	}
	if upper.IsWhiteout(name, &st) {
		return was.Form == beneath.Nothing
	}
	now, err := upper.Entry(name)
	if err != nil || now.Form != was.Form || now.Mode != was.Mode {
		return false
	}
	p := place{path: path.Dir(at), upper: upper, host: host}
	switch now.Form {
	case beneath.Directory:
		return hidesNothing(p, name)
	case beneath.File:
		return l.hasText(p, name, Change{Path: at, Old: was, New: now})
	case beneath.Link:
		return now.Target == was.Target
	}
	return false
}

// hasText reports whether a file equals the host's, byte for byte.
func (l *View) hasText(p place, name string, c Change) bool {
	f, err := p.upper.OpenSeen(name, c.New.Mark)
	if err != nil {
		return false
	}
	defer f.Close()
	same, err := l.hasSameContent(p, name, c, f)
	return same && err == nil
}

// hidesNothing reports whether a directory has all the names of the host's directory, or lets them show
// through.
func hidesNothing(p place, name string) bool {
	upper, err := p.upper.OpenDir(name)
	if err != nil {
		return false
	}
	defer upper.Close()
	if !upper.IsOpaque() {
		return true
	}
	host, err := p.host.OpenDir(name)
	if err != nil {
		return false
	}
	defer host.Close()
	has, err := upper.Names()
	if err != nil {
		return false
	}
	below, err := host.Names()
	return err == nil && !slices.ContainsFunc(below, func(n string) bool {
		_, found := slices.BinarySearch(has, n)
		return !found
	})
}
