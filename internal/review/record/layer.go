// Package record has the files beside the layer over a workspace: the record, the names of the host,
// and the intent of an apply.
//
// The record contains the time since when the layer holds changes, and the host's state of each path
// that was applied or discarded since. The names are those that the host had when the layer began.
// The intent lists the steps of a running apply; after a crash the next command finishes them.
package record

import (
	"path/filepath"
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
