package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"

	"github.com/bothy-dev/bothy/internal/review/beneath"
	"github.com/bothy-dev/bothy/internal/review/quote"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Deed is the kind of a step.
type Deed string

const (
	Bring     Deed = "bring"  // puts a file, a link or a directory in its place
	Remove    Deed = "remove" // takes a file or a link away
	RemoveDir Deed = "rmdir"  // removes a directory in which nothing is left
	Chmod     Deed = "chmod"  // gives a directory its mode
)

// Intent lists the steps that an apply is about to do, and the finished steps that the record
// does not have yet. It is written before anything on the host changes.
type Intent struct {
	Version int    `json:"version"`
	Files   []Step `json:"files"`
	// Quiet are directories in which only applies have added or removed names, with a sum of
	// the names that are not those of the files; see sumQuiet.
	Quiet map[string]uint64 `json:"quiet,omitempty"`
}

// Step is one step. Paths are on disk as Quote writes them.
type Step struct {
	Do    Deed         `json:"do,omitempty"` // empty: an older Bothy wrote it, and finishes no record
	Dir   string       `json:"dir"`
	Name  string       `json:"name"`
	Temp  string       `json:"temp"`
	Old   beneath.Mark `json:"old"`   // of the host's file
	Fresh bool         `json:"fresh"` // a file is created
	// Mine is the new file; it may be missing if Mine is none.
	Mine beneath.Identity `json:"mine,omitzero"`
	// Tree is the contents of the directory that it replaces.
	Tree Contents `json:"tree,omitempty"`
	Mode uint32   `json:"mode,omitempty"` // that a directory gets

	// Known is the record's entry once the step is done, without the host's mark.
	Known State    `json:"known,omitzero"`
	Parts []string `json:"parts,omitempty"` // they go with it
	Heirs []string `json:"heirs,omitempty"` // see Inherit
}

func (n Step) Path() string { return path.Join(n.Dir, n.Name) }

// Contents are the entries seen in a directory that something else replaces, by relative path.
// They are removed together, and only if the directory has nothing else.
type Contents map[string]beneath.Mark

// MarshalJSON writes paths as Quote does: they need not be text.
func (t Contents) MarshalJSON() ([]byte, error) {
	m := make(map[string]beneath.Mark, len(t))
	for p, mark := range t {
		m[quote.Path(p)] = mark
	}
	return json.Marshal(m)
}

// UnmarshalJSON reads the form that MarshalJSON writes.
func (t *Contents) UnmarshalJSON(b []byte) error {
	var m map[string]beneath.Mark
	if err := json.Unmarshal(b, &m); err != nil {
		return err
	}
	*t = make(Contents, len(m))
	for quoted, mark := range m {
		p, err := quote.Parse(quoted)
		if err != nil {
			return err
		}
		(*t)[p] = mark
	}
	return nil
}

// Finish records the state of the host after a step.
func (r *Record) Finish(n Step, host beneath.Mark) {
	r.Inherit(n.Heirs)
	for _, p := range n.Parts {
		r.Set(p, State{Gone: true})
	}
	k := n.Known
	k.Host = host
	r.Set(n.Path(), k)
}

// Inherit records that the heirs of a file that goes were made by the sandbox, so that they do
// not count as deleted by the host.
func (r *Record) Inherit(heirs []string) {
	for _, p := range heirs {
		if k, ok := r.Find(p); !ok || k == (State{Path: k.Path}) {
			r.Set(p, State{Moved: true})
		}
	}
}

// WriteIntent writes down the steps of an apply.
func (l Layer) WriteIntent(n Intent) error {
	w := Intent{Version: spec.Version, Files: make([]Step, len(n.Files)), Quiet: make(map[string]uint64, len(n.Quiet))}
	for i, f := range n.Files {
		f.Dir, f.Name = quote.Path(f.Dir), quote.Path(f.Name)
		f.Parts, f.Heirs = quoteAll(f.Parts), quoteAll(f.Heirs)
		w.Files[i] = f
	}
	for at, sum := range n.Quiet {
		w.Quiet[quote.Path(at)] = sum
	}
	return store.WriteJSON(l.IntentFile(), w)
}

func quoteAll(list []string) (quoted []string) {
	for _, p := range list {
		quoted = append(quoted, quote.Path(p))
	}
	return quoted
}

// ReadIntent reads the steps of an apply that is running or was killed.
func (l Layer) ReadIntent() (n Intent, err error) {
	if err := store.ReadJSON(l.IntentFile(), &n); err != nil {
		return n, err
	}
	for i := range n.Files {
		f := &n.Files[i]
		if f.Dir, err = quote.Parse(f.Dir); err != nil {
			return n, err
		}
		if f.Name, err = quote.Parse(f.Name); err != nil {
			return n, err
		}
		if filepath.Base(f.Temp) != f.Temp && f.Temp != "" || filepath.Base(f.Name) != f.Name {
			return n, fmt.Errorf("%s names no file", l.IntentFile())
		}
		for _, list := range [][]string{f.Parts, f.Heirs} {
			for j := range list {
				if list[j], err = quote.Parse(list[j]); err != nil {
					return n, err
				}
			}
		}
	}
	quiet := n.Quiet
	n.Quiet = make(map[string]uint64, len(quiet))
	for quoted, sum := range quiet {
		at, err := quote.Parse(quoted)
		if err != nil {
			return n, err
		}
		n.Quiet[at] = sum
	}
	return n, nil
}

// Underway returns the host's paths of temporary files: those that an apply has not yet renamed
// into place, and those that it has replaced. They are not the host's own.
func (l Layer) Underway() (map[string]bool, error) {
	n, err := l.ReadIntent()
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
