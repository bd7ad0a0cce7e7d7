package review

import (
	"path"
	"slices"
)

// Unlike returns the given paths of the layer at which it differs from the host now. A file that
// was copied up unchanged, or rewritten with the same content, is not a change of the project's.
// A path that cannot be compared counts as different.
func (w Workspace) Unlike(paths []string) ([]string, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	l, err := w.open()
	if err != nil {
		return nil, err
	}
	defer l.close()
	if l.upper == nil {
		return paths, nil
	}
	return slices.DeleteFunc(slices.Clone(paths), l.isLike), nil
}

// isLike reports whether the layer and the host have the same at a path.
func (l *look) isLike(at string) bool {
	upper, name, err := l.upper.parent(at)
	if err != nil {
		return false
	}
	defer upper.close()
	host, err := l.host.sub(path.Dir(at))
	if err != nil {
		host = nil // it has no such directory, or none that can be opened
	}
	defer host.close()
	st, there, err := upper.stat(name)
	if err != nil || !there {
		return false
	}
	was, err := host.entry(name)
	if err != nil {
		return false
	}
	if upper.isWhiteout(name, &st) {
		return was.Form == Nothing
	}
	now, err := upper.entry(name)
	if err != nil || now.Form != was.Form || now.Mode != was.Mode {
		return false
	}
	p := place{path: path.Dir(at), upper: upper, host: host}
	switch now.Form {
	case Directory:
		return hidesNothing(p, name)
	case File:
		return l.hasText(p, name, Change{Path: at, Old: was, New: now})
	case Link:
		return now.Target == was.Target
	}
	return false
}

// hasText reports whether a file equals the host's, byte for byte.
func (l *look) hasText(p place, name string, c Change) bool {
	f, err := p.upper.read(name, c.New.Mark)
	if err != nil {
		return false
	}
	defer f.Close()
	same, err := l.same(p, name, c, f)
	return same && err == nil
}

// hidesNothing reports whether a directory has all the names of the host's directory, or lets them show
// through.
func hidesNothing(p place, name string) bool {
	upper, err := p.upper.sub(name)
	if err != nil {
		return false
	}
	defer upper.close()
	if !upper.isOpaque() {
		return true
	}
	host, err := p.host.sub(name)
	if err != nil {
		return false
	}
	defer host.close()
	has, err := upper.names()
	if err != nil {
		return false
	}
	below, err := host.names()
	return err == nil && !slices.ContainsFunc(below, func(n string) bool {
		_, found := slices.BinarySearch(has, n)
		return !found
	})
}
