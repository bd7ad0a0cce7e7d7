// Package review lists a sandbox's changes to a directory that the sandbox does not write to
// itself, and applies them to the host, or discards them.
//
// The sandbox works on an overlay of the kernel: the host's directory below, and above it a layer
// in the sandbox's own directory. The sandbox's writes go to the layer: files as they are,
// deletions as marks. So a walk through the layer beside the directory yields the list of changes
// ([Workspace.Changes]). No program needs to run for that; above all not git.
//
// The sandbox writes the layer, and may be hostile. So the package opens a layer one name at a time
// from open directories, and follows no link in it. The layer may change while it is read.
// [Workspace.Apply] writes on the host beneath the open directory. It makes new files that
// replace others in one step.
//
// # What a change was based on
//
// An overlay does not remember the file below at the time when the sandbox changed it. The layer
// therefore has a record. It contains the time since when the layer holds changes, and the host's
// state of each path that was applied or discarded since. The names that the host had are beside
// it ([Workspace.Remember]). A host's file is in conflict, and is left alone, if its inode
// changed at or after that time, or if it differs from the record. The kernel sets the time of an
// inode's change, and no program can set it back. So a file that the host changed before the
// sandbox first looked at it is in conflict, too: in doubt there is a conflict.
package review

import (
	"path/filepath"

	"github.com/bothy-dev/bothy/spec"
)

// Workspace is one directory of the host that a sandbox changes in a layer.
type Workspace struct {
	Source string // the directory
	Layer  Layer
	// Over are relative paths in it that something is mounted over: the layer's files there were
	// not made by the sandbox.
	Over []string
}

// Layer is a directory with the changes to a workspace.
type Layer struct{ Dir string }

// Names in a layer's directory.
func (l Layer) Upper() string  { return filepath.Join(l.Dir, "up") }
func (l Layer) Work() string   { return filepath.Join(l.Dir, "work") } // the kernel's own
func (l Layer) record() string { return filepath.Join(l.Dir, "record.json") }
func (l Layer) names() string  { return filepath.Join(l.Dir, "names") }
func (l Layer) intent() string { return filepath.Join(l.Dir, "applying.json") }
func (l Layer) gone() string   { return filepath.Join(l.Dir, "gone") } // is being deleted

// Idle is the kernel's own directory in Work. It contains files only for moments, and only the kernel
// may read it.
func (l Layer) Idle() string { return filepath.Join(l.Work(), "work") }

// Kind is the kind of a change.
type Kind string

// Kinds of changes.
const (
	Added    Kind = "added"
	Modified Kind = "modified"
	Deleted  Kind = "deleted"
	Mode     Kind = "mode" // its permissions, and nothing else
	Type     Kind = "type" // a file became a directory, a link a file, and so on
)

// Form is the form of a file.
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
	// Implied marks directories that come or go with their contents.
	Implied bool
	// From is the deleted file with the same content: a rename, as people see it.
	From string
	// Flags say why it may make something run on the host later.
	Flags []Flag
	// Conflict says what the host changed meanwhile; empty if nothing.
	Conflict string
	// Refused says why it cannot be applied in any way; empty if it can.
	Refused string

	to     []string // where the sandbox moved the deleted file, and nowhere else; see tie
	heirs  []string // files that the sandbox made of the host's file; see orphan
	within int      // how many names right in it are deleted, too; see keeps
}

// Of returns the reviewed workspaces of a sandbox; layer gives the directory of the n-th
// workspace's layer.
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
