package apply

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/review/beneath"
	"github.com/bothy-dev/bothy/internal/review/quote"
	"github.com/bothy-dev/bothy/internal/review/record"
	"github.com/bothy-dev/bothy/internal/store"
)

// Discard throws changes away: the sandbox sees the host's files again. The caller makes sure
// that the layer is not mounted, and that no other apply or discard runs.
func Discard(w review.Workspace, changes []review.Change) ([]Outcome, error) {
	var done []Outcome
	err := withJob(w, func(l *job) (err error) {
		done, err = l.discardThese(changes)
		return err
	})
	return done, err
}

func (l *job) discardThese(changes []review.Change) ([]Outcome, error) {
	all, err := l.FindChanges()
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
		if !c.Implied || c.Kind != review.Deleted {
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
func DiscardAll(w review.Workspace) error {
	return withJob(w, func(l *job) error {
		_, err := l.discardAll(nil)
		return err
	})
}

// discardAll empties the layer.
func (l *job) discardAll(changes []review.Change) ([]Outcome, error) {
	if err := store.RemoveTree(l.Layer.GoneDir()); err != nil {
		return nil, err
	}
	if err := os.Rename(l.Layer.Upper(), l.Layer.GoneDir()); err != nil {
		return nil, err
	}
	if err := store.RemoveTree(l.Layer.GoneDir()); err != nil {
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
func (l *job) discardSome(changes []review.Change, stays []string) ([]Outcome, error) {
	var done []Outcome
	gone := map[string]bool{} // removed paths that hid the host's
	for _, c := range changes {
		why, err := l.discardChange(c, stays, gone)
		if errors.Is(err, fs.ErrPermission) { // the others can still be discarded
			why, err = beneath.Reason(err), nil
		}
		if err != nil {
			return done, err
		}
		o := Outcome{Change: c, Result: Discarded}
		if why != "" {
			o.Result, o.Why = Failed, why
		} else {
			l.rebase(c)
		}
		done = append(done, o)
	}
	for i := range slices.Backward(done) { // their contents are gone now
		if err := l.discardDirectory(&done[i]); err != nil {
			return done, err
		}
	}
	return done, l.Layer.Write(l.Record)
}

// discardDirectory removes a directory that the sandbox made, if it is empty now, or gives one
// the host's mode.
func (l *job) discardDirectory(o *Outcome) error {
	if o.New.Form != beneath.Directory || o.Result != Discarded {
		return nil
	}
	in, name, err := l.Upper.OpenParent(o.Path)
	if beneath.IsMissing(err) {
		return nil // it went with another
	}
	if err != nil {
		return err
	}
	defer in.Close()
	switch {
	case o.Kind == review.Mode:
		if err := in.Chmod(name, o.Old.Mode); err != nil {
			return err
		}
		return l.removeEmptyDirs(o.Path)
	case o.Old.Form == beneath.Nothing:
		err := unix.Unlinkat(in.FD(), name, unix.AT_REMOVEDIR)
		switch {
		case errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.EEXIST):
			o.Result, o.Why = Failed, "something in it stays"
			return nil
		case beneath.IsMissing(err):
			return nil
		case err != nil:
			return err
		}
		return l.removeEmptyDirs(path.Dir(o.Path))
	}
	return nil
}

// rebase makes the host's current file the base of the next change.
func (l *job) rebase(c review.Change) {
	l.Record.Inherit(c.Heirs)
	switch {
	case c.Old.Form == beneath.File, c.Old.Form == beneath.Link, c.Old.Form == beneath.Nothing && l.Had(c.Path) != record.Absent:
		l.Record.Set(c.Path, record.State{Host: c.Old.Mark})
	default:
		l.Record.Drop(c.Path)
	}
}

// discardChange takes one change out of the layer, or returns why it cannot go alone.
func (l *job) discardChange(c review.Change, stays []string, gone map[string]bool) (string, error) {
	cover, err := l.findHider(c.Path)
	if err != nil {
		return "", err
	}
	if cover == "" {
		return "", l.removeFromLayer(c.Path)
	}
	if gone[cover] {
		return "", nil
	}
	switch {
	case !anyBelow(stays, cover):
		gone[cover] = true
		if err := l.moveAway(cover); err != nil {
			return "", err
		}
		return "", l.removeEmptyDirs(path.Dir(cover))
	case c.Kind == review.Added:
		return "", l.removeFromLayer(c.Path)
	}
	return "the inside removed or made anew " + quote.Path(cover) + ": discard all of that", nil
}

// anyBelow reports whether one of some sorted paths is p, or below it.
func anyBelow(paths []string, p string) bool {
	_, found := slices.BinarySearch(paths, p)
	at, _ := slices.BinarySearch(paths, p+"/")
	return found || at < len(paths) && strings.HasPrefix(paths[at], p+"/")
}

// findHider returns the path that hides the host's at p: a directory that the sandbox made, or the
// mark that a directory was deleted or replaced.
func (l *job) findHider(p string) (string, error) {
	if cover, err := l.findCover(p); cover != "" || err != nil {
		return cover, err
	}
	names := strings.Split(p, "/")
	for i := 1; i < len(names); i++ {
		at := strings.Join(names[:i], "/")
		in, name, err := l.Upper.OpenParent(at)
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		e, err := in.Entry(name)
		in.Close()
		if err != nil {
			return "", err
		}
		if e.Form != beneath.Directory && e.Form != beneath.Nothing {
			return at, nil
		}
	}
	return "", nil
}
