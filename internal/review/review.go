// Package review answers what a sandbox has changed in a directory that it does
// not write to, and brings that to the host, or throws it away.
//
// The inside works on an overlay of the kernel: the host's directory below, and
// above it a layer in the sandbox's own directory. What the inside writes is in
// the layer: files as they are, deletions as marks. So the list of changes is a
// walk through the layer beside the directory ([Workspace.Changes]), and nothing
// needs to run to make it; above all not git.
//
// What is in the layer was written by whoever is inside. It is opened one name at
// a time from open directories and no link in it is followed; it may change while
// it is read. What is written on the host ([Workspace.Apply]) is written beneath
// the open directory, as new files that take the place of others in one step.
//
// # What a change was based on
//
// An overlay does not remember what was below a file when the inside changed it.
// The layer therefore has a record: the time since when it holds changes, and for
// paths that were applied or discarded since, what the host had then; and the names that
// the host had ([Workspace.Remember]). A file of
// the host's whose inode changed at or after that time, or that is another one
// than the record has, is in conflict with what the inside made of it, and left
// alone. The kernel sets the time of an inode's change, and no program can set it
// back. So a file that was changed on the host before the inside first looked at
// it is in conflict, too: in doubt it is one.
package review

import (
	"path/filepath"

	"github.com/bothy-dev/bothy/spec"
)

// Workspace is one directory of the host that a sandbox changes in a layer.
type Workspace struct {
	Source string // the directory
	Layer  Layer
	// Over are paths in it, relative, that something else lies over: what the
	// layer has there was not made by the inside.
	Over []string
}

// Layer is a directory with what was written over a workspace.
type Layer struct{ Dir string }

// Names in a layer's directory.
func (l Layer) Upper() string  { return filepath.Join(l.Dir, "up") }
func (l Layer) Work() string   { return filepath.Join(l.Dir, "work") } // the kernel's own
func (l Layer) record() string { return filepath.Join(l.Dir, "record.json") }
func (l Layer) names() string  { return filepath.Join(l.Dir, "names") }
func (l Layer) intent() string { return filepath.Join(l.Dir, "applying.json") }
func (l Layer) gone() string   { return filepath.Join(l.Dir, "gone") } // is being deleted

// Idle is a directory that the kernel makes in there, in which something is only for moments,
// and into which nobody may look.
func (l Layer) Idle() string { return filepath.Join(l.Work(), "work") }

// Kind is what became of a path.
type Kind string

// Kinds of changes.
const (
	Added    Kind = "added"
	Modified Kind = "modified"
	Deleted  Kind = "deleted"
	Mode     Kind = "mode" // its permissions, and nothing else
	Type     Kind = "type" // a file became a directory, a link a file, and so on
)

// Form is what a path is.
type Form string

// Forms of files.
const (
	Nothing   Form = ""
	File      Form = "file"
	Directory Form = "directory"
	Link      Form = "symlink"
	Special   Form = "special" // a device, a socket, a pipe: never applied
)

// Entry is one side of a change.
type Entry struct {
	Form   Form
	Mode   uint32 // permissions only
	Size   int64
	Target string // of a link
	Mark   Mark
}

// Change is one path that differs between the layer and the host.
type Change struct {
	Path string // relative, as bytes: it need not be text
	Kind Kind
	Old  Entry // on the host, as it is now
	New  Entry // in the layer
	// Implied marks directories that come or go with what is in them.
	Implied bool
	// From is the deleted file with the same content: a rename, as people see it.
	From string
	// Flags say why it may make something run on the host later.
	Flags []Flag
	// Conflict says what the host changed meanwhile; empty if nothing.
	Conflict string
	// Refused says why it cannot be applied in any way; empty if it can.
	Refused string

	to     []string // where the inside has what goes, and nowhere else; see tie
	heirs  []string // files that the inside made of what the host has there; see orphan
	within int      // how many names right in it are deleted, too; see keeps
}

// Of lists what the reviewed workspaces of a sandbox are; layer gives the place
// of the n-th workspace's layer.
func Of(sb *spec.Sandbox, layer func(n int) string) (list []Workspace) {
	for i, m := range sb.Workspaces {
		if !sb.Reviews(m) {
			continue
		}
		w := Workspace{Source: m.Source, Layer: Layer{Dir: layer(i)}}
		for _, over := range sb.Mounted() {
			if rel, err := filepath.Rel(m.Target, over); err == nil && rel != "." && filepath.IsLocal(rel) {
				w.Over = append(w.Over, rel)
			}
		}
		list = append(list, w)
	}
	return list
}
