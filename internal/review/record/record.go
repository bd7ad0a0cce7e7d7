// Package record has the files beside the layer over a workspace: the record, the names of the host,
// and the intent of an apply.
//
// The record contains the time since when the layer holds changes, and the host's state of each path
// that was applied or discarded since. The names are those that the host had when the layer began.
// The intent lists the steps of a running apply; after a crash the next command finishes them.
package record

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/review/beneath"
	"github.com/bothy-dev/bothy/internal/review/quote"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Layer is a directory with the changes to a workspace.
type Layer struct{ Dir string }

// Names in a layer's directory.
func (l Layer) Upper() string      { return filepath.Join(l.Dir, "up") }
func (l Layer) Work() string       { return filepath.Join(l.Dir, "work") } // the kernel's own
func (l Layer) RecordFile() string { return filepath.Join(l.Dir, "record.json") }
func (l Layer) NamesFile() string  { return filepath.Join(l.Dir, "names") }
func (l Layer) IntentFile() string { return filepath.Join(l.Dir, "applying.json") }
func (l Layer) GoneDir() string    { return filepath.Join(l.Dir, "gone") } // is being deleted

// Idle is the kernel's own directory in Work. It contains files only for moments, and only the kernel
// may read it.
func (l Layer) Idle() string { return filepath.Join(l.Work(), "work") }

// Record is the known state of the host's files below a layer.
type Record struct {
	Version int `json:"version"`
	// Since is the time from which on the layer holds changes, in nanoseconds:
	// the first start since it was empty.
	Since int64 `json:"since"`
	// Paths are the paths that were applied or discarded since then.
	Paths []State `json:"paths,omitempty"`

	// Touched are directories of the host, as Quote writes them, in which an apply was the last
	// to add or remove names. The value is the time of that, in nanoseconds.
	Touched map[string]int64 `json:"touched,omitempty"`

	index map[string]int
}

// State is the recorded state of one path.
type State struct {
	Path string `json:"path"` // as Quote writes it
	// Host is the host's file on which the sandbox's next change is based; none if there was no
	// file.
	Host beneath.Mark `json:"host"`
	// Layer is the layer's file that the host has now, too. It needs nothing until the sandbox
	// changes it again. None if there is none.
	Layer beneath.Mark `json:"layer"`
	// Cut says that it is one of several names of a host's file, and was not applied or
	// discarded; see package hardlinks.
	Cut bool `json:"cut,omitempty"`
	// Copying says that the layer may have a copy of it that the sandbox has not seen, because a
	// start did not finish making its copies.
	Copying bool `json:"copying,omitempty"`
	// Gone says that the layer's mark of a deletion was applied.
	Gone bool `json:"gone,omitempty"`
	// Moved says that the layer's file was the host's at another path, and that nothing else is
	// known.
	Moved bool `json:"moved,omitempty"`
	// Inside is the mode of a directory of the layer that an apply made with a narrower one on
	// the host. As long as the layer's directory keeps that mode, it needs no change.
	Inside uint32 `json:"inside,omitempty"`
}

// Read reads the record. Without one, the time since when a layer holds its changes is unknown.
func (l Layer) Read() (*Record, error) {
	r := &Record{Version: spec.Version}
	err := store.ReadJSON(l.RecordFile(), r)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	r.index = make(map[string]int, len(r.Paths))
	for i, k := range r.Paths {
		path, uerr := quote.Parse(k.Path)
		if uerr != nil {
			return nil, fmt.Errorf("read %s: %w", l.RecordFile(), uerr)
		}
		r.index[path] = i
	}
	return r, err
}

func (l Layer) Write(r *Record) error {
	w := *r
	w.Paths = slices.DeleteFunc(slices.Clone(r.Paths), State.IsDropped)
	return store.WriteJSON(l.RecordFile(), w)
}

func (k State) IsDropped() bool { return k.Path == "" }

// IsIn reports whether the host has the layer's file, too.
func (k State) IsIn(layer beneath.Mark) bool {
	return k.Copying || k.Layer != beneath.Mark{} && k.Layer == layer
}

// LastKnown describes for a user when the host's file was the known one.
func (k State) LastKnown() string {
	if k.Cut {
		return "the sandbox was started"
	}
	return "it was last applied or discarded"
}

// Find returns the recorded state of a path.
func (r *Record) Find(path string) (State, bool) {
	i, ok := r.index[path]
	if !ok {
		return State{}, false
	}
	return r.Paths[i], true
}

func (r *Record) Set(path string, k State) {
	k.Path = quote.Path(path)
	if i, ok := r.index[path]; ok {
		r.Paths[i] = k
		return
	}
	r.index[path] = len(r.Paths)
	r.Paths = append(r.Paths, k)
}

// SinceText formats the record's time for a user.
func (r *Record) SinceText() string {
	return time.Unix(0, r.Since).Local().Format(time.DateTime)
}

// Drop forgets a path. Its place stays until the record is read again, so that the index of the others
// stays valid.
func (r *Record) Drop(path string) {
	if i, ok := r.index[path]; ok {
		r.Paths[i] = State{}
		delete(r.index, path)
	}
}

// LeaveLayer records that the layer has nothing at a path any more.
func (r *Record) LeaveLayer(path string) {
	k, ok := r.Find(path)
	switch {
	case k.Cut:
		r.Drop(path) // the sandbox did nothing that conflicts with the host's file
	case ok:
		r.Set(path, State{Host: k.Host, Inside: k.Inside}) // for a deleted path, that the host does not have it
	}
}

// HasDir reports whether an apply made or changed a directory of the host.
func (r *Record) HasDir(path string, now beneath.Mark) bool {
	k, ok := r.Find(path)
	return ok && k.Host.Inode == now.Inode
}

// ForgetMode forgets the mode in the sandbox of a directory that has left the layer.
func (r *Record) ForgetMode(path string) {
	if i, ok := r.index[path]; ok {
		r.Paths[i].Inside = 0
	}
}
