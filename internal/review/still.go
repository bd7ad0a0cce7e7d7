package review

import (
	"strings"

	"golang.org/x/sys/unix"
)

// Between the look and the apply somebody may have discarded a change, or put back what the
// layer held before: what it does not want any more is not carried out.

// stillThere wants the layer to have what was seen at the path of a change.
func (l *look) stillThere(c Change) error {
	in, name, err := l.upper.parent(c.Path)
	if hidden(err) {
		return errChanged()
	}
	if err != nil {
		return err
	}
	defer in.close()
	now, err := in.entry(name)
	if err != nil {
		return err
	}
	if now.Form == Directory { // its times are those of what is in it
		now.Mark = c.New.Mark
	}
	if now != c.New {
		return errChanged()
	}
	return nil
}

// already tells whether another apply has brought a change since it was looked at, as the
// record says, and the host has that.
func (l *look) already(o Order) bool {
	k, noted := l.record.of(o.Path)
	if !noted {
		return false
	}
	in, name, err := l.host.parent(o.Path)
	if err != nil && !hidden(err) {
		return false
	}
	defer in.close()
	now, err := in.entry(name)
	switch {
	case err != nil:
		return false
	case o.Kind == Deleted:
		return now.Form == Nothing && k.Host == Mark{}
	case o.New.Form == Directory:
		return now.Form == Directory && l.record.has(o.Path, now.Mark) && (o.Kind != Mode || now.Mode != o.Old.Mode && now.Mode == o.mode()|0o700)
	case now.Mark != k.Host || k.Host == o.Old.Mark || now.Form != o.New.Form:
		return false
	}
	return k.Layer == o.New.Mark || k.Layer == Mark{} && now.Size == o.New.Size && !l.layerHas(o.Path)
}

// layerHas tells whether the layer itself has anything at a path.
func (l *look) layerHas(p string) bool {
	in, name, err := l.upper.parent(p)
	if err != nil {
		return !hidden(err)
	}
	defer in.close()
	_, there, err := in.stat(name)
	return there || err != nil
}

// stillGone wants the layer to hide what the host has at a path, and to have nothing there.
func (l *look) stillGone(p string) error {
	hides, err := l.hides(p)
	if err == nil && !hides {
		err = errChanged()
	}
	return err
}

// hides tells whether a path is not there inside, whatever the host has: it has the mark of a
// deletion, or lies in something that has, that is no directory, or that hides the host's.
func (l *look) hides(p string) (bool, error) {
	in, opaque := l.upper, l.upper.isOpaque()
	for rest, more := p, true; more; {
		var name string
		name, rest, more = strings.Cut(rest, "/")
		st, there, err := in.stat(name)
		switch {
		case err != nil:
			return false, err
		case !there:
			return opaque, nil
		case in.isWhiteout(name, &st):
			return true, nil
		case st.Mode&unix.S_IFMT != unix.S_IFDIR:
			return more, nil
		case !more:
			return false, nil
		}
		below, err := in.sub(name)
		if hidden(err) {
			return false, nil // it became something else just now
		}
		if err != nil {
			return false, err
		}
		defer below.close()
		in, opaque = below, opaque || below.isOpaque()
	}
	return false, nil
}
