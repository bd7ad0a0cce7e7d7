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
	Dir   string `json:"dir"`  // as Quote writes it
	Name  string `json:"name"` // likewise
	Temp  string `json:"temp"`
	Old   Mark   `json:"old"`   // of the host's file
	Fresh bool   `json:"fresh"` // a file comes
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
			Dir: Quote(path.Dir(a.orders[s.order].Path)), Name: Quote(s.name), Temp: s.temp, Old: s.old.Mark, Fresh: s.fresh,
		})
	}
	return store.WriteJSON(a.Layer.intent(), n)
}

// recover clears away what was left by one that was killed: what left the layer, and,
// of an apply, files beside those they should replace, or that they have replaced.
func (l *look) recover() error {
	store.SweepTemp(l.Layer.Dir, 0)
	if err := store.RemoveTree(l.Layer.gone()); err != nil {
		return err
	}
	var n intent
	err := store.ReadJSON(l.Layer.intent(), &n)
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
	return os.Remove(l.Layer.intent())
}

func (l *look) clear(f intended) error {
	where, err := Unquote(f.Dir)
	if err != nil {
		return err
	}
	name, err := Unquote(f.Name)
	if err != nil {
		return err
	}
	if filepath.Base(f.Temp) != f.Temp || filepath.Base(name) != name {
		return fmt.Errorf("%s names no file", l.Layer.intent())
	}
	d, err := l.host.sub(where)
	if err != nil {
		return nil // its directory is gone, and it with it
	}
	defer d.close()
	st, there, err := d.stat(f.Temp)
	if err != nil || !there {
		return err
	}
	s := &step{dir: d, name: name, temp: f.Temp, old: Entry{Mark: f.Old}, fresh: f.Fresh}
	if st.Ino != f.Old.Inode {
		s.unstage()
		return nil
	}
	if err := s.finish(); err != nil && !errors.Is(err, spec.ErrConflict) && !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}
