package review

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// intent is what a batch is about to do. It is written before anything appears on
// the host under another name than its own.
type intent struct {
	Version int        `json:"version"`
	Files   []intended `json:"files"`
}

type intended struct {
	Dir   string `json:"dir"`  // on disk as Quote writes it
	Name  string `json:"name"` // likewise
	Temp  string `json:"temp"`
	Old   Mark   `json:"old"`   // of the host's file
	Fresh bool   `json:"fresh"` // a file comes
	// Mine is the file that comes in the place of another; none before it may be there.
	Mine own `json:"mine,omitzero"`
	// Tree is what is in the directory that goes for it.
	Tree contents `json:"tree,omitempty"`
}

// intend writes down what a batch is about to do; without a batch, that nothing
// is under way.
func (a *applying) intend(batch []step) error {
	if len(batch) == 0 {
		return os.Remove(a.Layer.intent())
	}
	n := intent{Version: spec.Version}
	for _, s := range batch {
		n.Files = append(n.Files, intended{
			Dir: Quote(path.Dir(a.orders[s.order].Path)), Name: Quote(s.name), Temp: s.temp, Old: s.old.Mark, Fresh: s.fresh, Mine: s.mine, Tree: s.gone,
		})
	}
	return store.WriteJSON(a.Layer.intent(), n)
}

// Recover clears away what an apply that was killed left in the workspace. The caller sees to
// it that nobody else applies or discards.
func (w Workspace) Recover() error {
	if _, err := os.Lstat(w.Layer.intent()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err := w.change(func(*look) error { return nil })
	if errors.Is(err, spec.ErrNotFound) {
		return nil // it went with the workspace
	}
	return err
}

// recover clears away what was left by one that was killed: what left the layer, and,
// of an apply, files beside those they should replace, or that they have replaced.
func (l *look) recover() error {
	store.SweepTemp(l.Layer.Dir, 0)
	if err := store.RemoveTree(l.Layer.gone()); err != nil {
		return err
	}
	n, err := l.Layer.readIntent()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, f := range n.Files {
		if err := l.clear(f); err != nil {
			return fmt.Errorf("clear away what an interrupted apply left: %w", err)
		}
	}
	l.temps = nil
	return os.Remove(l.Layer.intent())
}

// readIntent reads what is under way, or was when somebody was killed.
func (l Layer) readIntent() (n intent, err error) {
	if err := store.ReadJSON(l.intent(), &n); err != nil {
		return n, err
	}
	for i := range n.Files {
		f := &n.Files[i]
		if f.Dir, err = Unquote(f.Dir); err != nil {
			return n, err
		}
		if f.Name, err = Unquote(f.Name); err != nil {
			return n, err
		}
		if filepath.Base(f.Temp) != f.Temp || filepath.Base(f.Name) != f.Name {
			return n, fmt.Errorf("%s names no file", l.intent())
		}
	}
	return n, nil
}

// underway are the paths of the host's at which lies what an apply has not put in place
// yet, or has taken out of it. It is none of the host's own.
func (l Layer) underway() (map[string]bool, error) {
	n, err := l.readIntent()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	temps := make(map[string]bool, len(n.Files))
	for _, f := range n.Files {
		temps[path.Join(f.Dir, f.Temp)] = true
	}
	return temps, err
}

func (l *look) clear(f intended) error {
	d, err := l.host.sub(f.Dir)
	if err != nil {
		return nil // its directory is gone, and it with it
	}
	defer d.close()
	beside, err := d.own(f.Temp)
	if err != nil || beside.none() {
		return err
	}
	there, err := d.own(f.Name)
	if err != nil {
		return err
	}
	s := &step{dir: d, name: f.Name, temp: f.Temp, old: Entry{Mark: f.Old}, fresh: f.Fresh, mine: f.Mine, gone: f.Tree}
	if f.Old.Mode&unix.S_IFMT == unix.S_IFDIR {
		s.old.Form = Directory
	}
	if f.Fresh && f.Mine.none() && beside.Mark.Inode == f.Old.Inode {
		s.mine = there // an older Bothy wrote this, before what it tells of was in place
	}
	switch {
	case !f.Fresh: // beside it is what was at the name
	case s.mine.none(), s.mine.is(beside): // ours is not in place, or is no more
		s.unstage()
		return nil
	case !there.none() && !s.mine.has(there): // what is at the name now came last
		if s.old.Form == Directory {
			_ = s.gone.remove(d, f.Temp) // what somebody wrote into it stays where it is
			return nil
		}
		s.unstage()
		return nil
	}
	if err := s.finish(); err != nil && !errors.Is(err, spec.ErrConflict) && !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}
