package review

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// intent lists the steps that an apply is about to do, and the finished steps that the record
// does not have yet. It is written before anything on the host changes.
type intent struct {
	Version int        `json:"version"`
	Files   []intended `json:"files"`
	// Quiet are directories in which only applies have added or removed names, with a sum of
	// the names that are not those of the files; see sumQuiet.
	Quiet map[string]uint64 `json:"quiet,omitempty"`
}

// intended is one step. Paths are on disk as Quote writes them.
type intended struct {
	Do    deed   `json:"do,omitempty"` // empty: an older Bothy wrote it, and finishes no record
	Dir   string `json:"dir"`
	Name  string `json:"name"`
	Temp  string `json:"temp"`
	Old   Mark   `json:"old"`   // of the host's file
	Fresh bool   `json:"fresh"` // a file is created
	// Mine is the new file; it may be missing if Mine is none.
	Mine own `json:"mine,omitzero"`
	// Tree is the contents of the directory that it replaces.
	Tree contents `json:"tree,omitempty"`
	Mode uint32   `json:"mode,omitempty"` // that a directory gets

	// Known is the record's entry once the step is done, without the host's mark.
	Known known    `json:"known,omitzero"`
	Parts []string `json:"parts,omitempty"` // they go with it
	Heirs []string `json:"heirs,omitempty"` // see record.inherit
}

func (n intended) path() string { return path.Join(n.Dir, n.Name) }

// intended returns the entry that is written for a step.
func (a *applying) intended(s step) intended {
	o := a.orders[s.order]
	n := intended{
		Do: s.do, Dir: path.Dir(o.Path), Name: path.Base(o.Path), Temp: s.temp, Old: s.old.Mark, Fresh: s.do == bring,
		Mine: s.mine, Tree: s.gone, Heirs: o.heirs,
	}
	switch s.do {
	case remove, rmdir:
		n.Known.Gone = true
	case chmod:
		n.Mode = o.mode() | 0o700
		n.Known.Inside = o.inside()
	case bring:
		if o.New.Form == Directory {
			n.Known.Inside = o.inside()
		}
		if !s.partly && (o.New.Form != Directory || o.Kind == Type) {
			n.Known.Layer = o.New.Mark
		}
	}
	for _, i := range a.partsOf(s.order) {
		if s.old.Form == Directory {
			n.Parts = append(n.Parts, a.orders[i].Path)
			n.Heirs = append(slices.Clip(n.Heirs), a.orders[i].heirs...)
		}
	}
	return n
}

// done records the state of the host after a step.
func (r *record) done(n intended, host Mark) {
	r.inherit(n.Heirs)
	for _, p := range n.Parts {
		r.set(p, known{Gone: true})
	}
	k := n.Known
	k.Host = host
	r.set(n.path(), k)
}

// intend writes down the steps of the batch, and those that the record does not have yet.
func (a *applying) intend() error {
	list := slices.Clip(a.pending)
	for _, s := range a.batch {
		list = append(list, a.intended(s))
	}
	a.sumQuiet(list)
	return a.Layer.intend(intent{Files: list, Quiet: a.quiet})
}

func (l Layer) intend(n intent) error {
	w := intent{Version: spec.Version, Files: make([]intended, len(n.Files)), Quiet: make(map[string]uint64, len(n.Quiet))}
	for i, f := range n.Files {
		f.Dir, f.Name = Quote(f.Dir), Quote(f.Name)
		f.Parts, f.Heirs = quoteAll(f.Parts), quoteAll(f.Heirs)
		w.Files[i] = f
	}
	for at, sum := range n.Quiet {
		w.Quiet[Quote(at)] = sum
	}
	return store.WriteJSON(l.intent(), w)
}

func quoteAll(list []string) (quoted []string) {
	for _, p := range list {
		quoted = append(quoted, Quote(p))
	}
	return quoted
}

// finishRecord writes the record. Then only the removal of replaced files that could not be
// removed is still intended.
func (a *applying) finishRecord() error {
	a.links.note(a.record)
	if err := a.Layer.write(a.record); err != nil {
		return err
	}
	a.written = time.Now()
	var left []intended
	for _, n := range a.pending {
		if n.Temp != "" && a.lies(path.Join(n.Dir, n.Temp)) {
			left = append(left, n)
		}
	}
	began := len(a.pending) > 0
	a.pending, a.quiet = left, map[string]uint64{}
	switch {
	case len(left) > 0:
		return a.Layer.intend(intent{Files: left})
	case began:
		return os.Remove(a.Layer.intent())
	}
	return nil
}

// lies reports whether the host may have something at a path.
func (l *look) lies(at string) bool {
	in, name, err := l.host.parent(at)
	if err != nil {
		return !hidden(err)
	}
	defer in.close()
	_, there, err := in.stat(name)
	return there || err != nil
}

// readIntent reads the steps of an apply that is running or was killed.
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
		if filepath.Base(f.Temp) != f.Temp && f.Temp != "" || filepath.Base(f.Name) != f.Name {
			return n, fmt.Errorf("%s names no file", l.intent())
		}
		for _, list := range [][]string{f.Parts, f.Heirs} {
			for j := range list {
				if list[j], err = Unquote(list[j]); err != nil {
					return n, err
				}
			}
		}
	}
	quiet := n.Quiet
	n.Quiet = make(map[string]uint64, len(quiet))
	for quoted, sum := range quiet {
		at, err := Unquote(quoted)
		if err != nil {
			return n, err
		}
		n.Quiet[at] = sum
	}
	return n, nil
}

// underway returns the host's paths of temporary files: those that an apply has not yet renamed
// into place, and those that it has replaced. They are not the host's own.
func (l Layer) underway() (map[string]bool, error) {
	n, err := l.readIntent()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	temps := make(map[string]bool, len(n.Files))
	for _, f := range n.Files {
		if f.Temp != "" {
			temps[path.Join(f.Dir, f.Temp)] = true
		}
	}
	return temps, err
}
