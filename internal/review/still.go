package review

import (
	"strings"

	"golang.org/x/sys/unix"
)

// Between the look and the apply, another command may have discarded a change, or put back the
// layer's earlier contents. Apply leaves out a change that the layer does not want any more.

// stillThere fails if the layer's path is not as it was seen.
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
	if now.Form == Directory { // its times depend on its contents
		now.Mark = c.New.Mark
	}
	if now != c.New {
		return errChanged()
	}
	return nil
}

// already reports whether another apply has brought the change since the look, according to the
// record, and the host still has it.
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

// layerHas reports whether the layer itself has anything at a path.
func (l *look) layerHas(p string) bool {
	in, name, err := l.upper.parent(p)
	if err != nil {
		return !hidden(err)
	}
	defer in.close()
	_, there, err := in.stat(name)
	return there || err != nil
}

// stillGone fails if the layer does not hide the host's path, or has something there.
func (l *look) stillGone(p string) error {
	hides, err := l.hides(p)
	if err == nil && !hides {
		err = errChanged()
	}
	return err
}

// hides reports whether a path is missing in the sandbox, whatever the host has. The path or one
// of its parents has the mark of a deletion, or a parent is not a directory or hides the host's.
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
