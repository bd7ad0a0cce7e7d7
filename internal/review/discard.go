package review

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/store"
)

// Discard throws changes away: the sandbox sees the host's files again. The caller makes sure
// that the layer is not mounted, and that no other apply or discard runs.
func (w Workspace) Discard(changes []Change) ([]Outcome, error) {
	var done []Outcome
	err := w.change(func(l *look) (err error) {
		done, err = l.discardThese(changes)
		return err
	})
	return done, err
}

func (l *look) discardThese(changes []Change) ([]Outcome, error) {
	all, err := l.changes()
	if err != nil {
		return nil, err
	}
	chosen := make(map[string]bool, len(changes))
	for _, c := range changes {
		chosen[c.Path] = true
	}
	left := 0
	var stays []string
	for _, c := range all {
		if chosen[c.Path] {
			continue
		}
		if !c.Implied {
			stays = append(stays, c.Path)
		}
		if !c.Implied || c.Kind != Deleted {
			left++
		}
	}
	if left == 0 {
		return l.discardAll(changes)
	}
	slices.Sort(stays)
	return l.discardSome(changes, stays)
}

// DiscardAll throws every change away without listing them: the layer may contain more than a
// walk can cover. The caller must make sure of the same as for Discard.
func (w Workspace) DiscardAll() error {
	return w.change(func(l *look) error {
		_, err := l.discardAll(nil)
		return err
	})
}

// discardAll empties the layer.
func (l *look) discardAll(changes []Change) ([]Outcome, error) {
	if err := store.RemoveTree(l.Layer.gone()); err != nil {
		return nil, err
	}
	if err := os.Rename(l.Layer.Upper(), l.Layer.gone()); err != nil {
		return nil, err
	}
	if err := store.RemoveTree(l.Layer.gone()); err != nil {
		return nil, err
	}
	var done []Outcome
	for _, c := range changes {
		done = append(done, Outcome{Change: c, Result: Discarded})
	}
	return done, l.Prepare()
}

// discardSome discards changes from a layer in which others stay. stays are the paths of those,
// sorted.
func (l *look) discardSome(changes []Change, stays []string) ([]Outcome, error) {
	var done []Outcome
	gone := map[string]bool{} // removed paths that hid the host's
	for _, c := range changes {
		why, err := l.discard(c, stays, gone)
		if errors.Is(err, fs.ErrPermission) { // the others can still be discarded
			why, err = reason(err), nil
		}
		if err != nil {
			return done, err
		}
		o := Outcome{Change: c, Result: Discarded}
		if why != "" {
			o.Result, o.Why = Failed, why
		} else {
			l.forget(c)
		}
		done = append(done, o)
	}
	for i := range slices.Backward(done) { // their contents are gone now
		if err := l.discardDirectory(&done[i]); err != nil {
			return done, err
		}
	}
	return done, l.Layer.write(l.record)
}

// discardDirectory removes a directory that the sandbox made, if it is empty now, or gives one
// the host's mode.
func (l *look) discardDirectory(o *Outcome) error {
	if o.New.Form != Directory || o.Result != Discarded {
		return nil
	}
	in, name, err := l.upper.parent(o.Path)
	if hidden(err) {
		return nil // it went with another
	}
	if err != nil {
		return err
	}
	defer in.close()
	switch {
	case o.Kind == Mode:
		if err := in.chmod(name, o.Old.Mode); err != nil {
			return err
		}
		return l.hollow(o.Path)
	case o.Old.Form == Nothing:
		err := unix.Unlinkat(in.fd(), name, unix.AT_REMOVEDIR)
		switch {
		case errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.EEXIST):
			o.Result, o.Why = Failed, "something in it stays"
			return nil
		case hidden(err):
			return nil
		case err != nil:
			return err
		}
		return l.hollow(path.Dir(o.Path))
	}
	return nil
}

// forget makes the host's current file the base of the next change.
func (l *look) forget(c Change) {
	l.record.inherit(c.heirs)
	switch {
	case c.Old.Form == File, c.Old.Form == Link, c.Old.Form == Nothing && l.had(c.Path) != absent:
		l.record.set(c.Path, known{Host: c.Old.Mark})
	default:
		l.record.drop(c.Path)
	}
}

// discard takes one change out of the layer, or returns why it cannot go alone.
func (l *look) discard(c Change, stays []string, gone map[string]bool) (string, error) {
	cover, err := l.hider(c.Path)
	if err != nil {
		return "", err
	}
	if cover == "" {
		return "", l.take(c.Path)
	}
	if gone[cover] {
		return "", nil
	}
	switch {
	case !anyBelow(stays, cover):
		gone[cover] = true
		if err := l.away(cover); err != nil {
			return "", err
		}
		return "", l.hollow(path.Dir(cover))
	case c.Kind == Added:
		return "", l.take(c.Path)
	}
	return "the inside removed or made anew " + Quote(cover) + ": discard all of that", nil
}

// anyBelow reports whether one of some sorted paths is p, or below it.
func anyBelow(paths []string, p string) bool {
	_, found := slices.BinarySearch(paths, p)
	at, _ := slices.BinarySearch(paths, p+"/")
	return found || at < len(paths) && strings.HasPrefix(paths[at], p+"/")
}

// hider returns the path that hides the host's at p: a directory that the sandbox made, or the
// mark that a directory was deleted or replaced.
func (l *look) hider(p string) (string, error) {
	if cover, err := l.cover(p); cover != "" || err != nil {
		return cover, err
	}
	names := strings.Split(p, "/")
	for i := 1; i < len(names); i++ {
		at := strings.Join(names[:i], "/")
		in, name, err := l.upper.parent(at)
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		e, err := in.entry(name)
		in.close()
		if err != nil {
			return "", err
		}
		if e.Form != Directory && e.Form != Nothing {
			return at, nil
		}
	}
	return "", nil
}
