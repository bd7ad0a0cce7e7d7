package review

import (
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/review/beneath"
	"github.com/bothy-dev/bothy/internal/review/record"
)

// Had reports whether the host had a path when the layer began.
func (l *View) Had(p string) record.Answer { return l.namesThen().Had(p) }

// namesThen returns the layer's names, and reads them at the first call.
func (l *View) namesThen() *record.Names {
	if l.names == nil {
		n, err := l.Layer.ReadNames()
		if err != nil || n.Since != l.Record.Since {
			n = &record.Names{} // all of it is unknown
		}
		l.names = n
	}
	return l.names
}

// stateThen returns the state of a directory when the layer began; a number of zero means unknown.
func (l *View) stateThen(p string) record.Listing { return l.namesThen().Dirs[p] }

// LayerHas reports whether the layer itself has anything at a path.
func (l *View) LayerHas(p string) bool {
	in, name, err := l.Upper.OpenParent(p)
	if err != nil {
		return !beneath.IsMissing(err)
	}
	defer in.Close()
	_, there, err := in.Stat(name)
	return there || err != nil
}

// Hides reports whether a path is missing in the sandbox, whatever the host has. The path or one
// of its parents has the mark of a deletion, or a parent is not a directory or hides the host's.
func (l *View) Hides(p string) (bool, error) {
	in, opaque := l.Upper, l.Upper.IsOpaque()
	for rest, more := p, true; more; {
		var name string
		name, rest, more = strings.Cut(rest, "/")
		st, there, err := in.Stat(name)
		switch {
		case err != nil:
			return false, err
		case !there:
			return opaque, nil
		case in.IsWhiteout(name, &st):
			return true, nil
		case st.Mode&unix.S_IFMT != unix.S_IFDIR:
			return more, nil
		case !more:
			return false, nil
		}
		below, err := in.OpenDir(name)
		if beneath.IsMissing(err) {
			return false, nil // it became something else just now
		}
		if err != nil {
			return false, err
		}
		defer below.Close()
		in, opaque = below, opaque || below.IsOpaque()
	}
	return false, nil
}

// ModeChanges reports who gave a directory another mode since both sides had the same. A layer has the
// mode of all directories in which anything changed. The sandbox did not set most of them, and
// they must not undo a mode that the host set since. If the common mode is unknown, the sandbox
// counts as having set its mode; so does the host, if the directory changed there at all.
func (l *View) ModeChanges(parent *beneath.Dir, name string, c Change) (inside, host bool) {
	path, was, now := c.Path, c.Old, c.New
	if was.Mode == now.Mode {
		return false, false
	}
	if l.Record.HasDir(path, was.Mark) {
		k, _ := l.Record.Find(path)
		applied := k.Host.Mode & 0o777
		before := applied
		if k.Inside != 0 {
			before = k.Inside
		}
		return now.Mode != before, was.Mode != applied
	}
	if before := l.stateThen(path); before.Inode == was.Mark.Inode {
		// It may have had another mode for a while, which the layer has then.
		meanwhile := was.Mark.Changed >= l.Record.Since && was.Mark.Changed != was.Mark.Modified
		return now.Mode != before.Mode, was.Mode != before.Mode || meanwhile
	}
	return !l.cameAnotherWay(parent, name, c), was.Mark.Changed >= l.Record.Since
}

// cameAnotherWay reports whether the host has something new with the mode that an apply would give it,
// at a path that was missing when the sandbox began and to which nothing was applied. It came
// another way, such as by a patch. The sandbox may have changed the mode of a file that the host
// had before; that change must be shown, even if the file was written again since.
func (l *View) cameAnotherWay(parent *beneath.Dir, name string, c Change) bool {
	if _, applied := l.Record.Find(c.Path); applied || l.Had(c.Path) != record.Absent {
		return false
	}
	mode := Change{New: c.New}.HostMode()
	if c.New.Form == beneath.Directory {
		mode |= 0o700
	}
	return c.Old.Mode == mode && l.isNew(parent, name)
}

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
