// Package review lists a sandbox's changes to a directory that the sandbox does not write to
// itself. Package apply applies them to the host, or discards them.
//
// The sandbox works on an overlay of the kernel: the host's directory below, and above it a layer
// in the sandbox's own directory. The sandbox's writes go to the layer: files as they are,
// deletions as marks. So a walk through the layer beside the directory yields the list of changes
// ([Workspace.Changes]). No program needs to run for that; above all not git.
//
// The sandbox writes the layer, and may be hostile. So the package opens a layer one name at a time
// from open directories, and follows no link in it. The layer may change while it is read.
//
// # What a change was based on
//
// An overlay does not remember the file below at the time when the sandbox changed it. The layer
// therefore has a record, and a list of the names that the host had ([Workspace.Remember]). A host's
// file is in conflict, and is left alone, if its inode changed at or after the time since when the
// layer holds changes, or if it differs from the record. The kernel sets the time of an
// inode's change, and no program can set it back. So a file that the host changed before the
// sandbox first looked at it is in conflict, too: in doubt there is a conflict.
package review

import (
	"path/filepath"

	"github.com/bothy-dev/bothy/internal/review/beneath"
	"github.com/bothy-dev/bothy/internal/review/record"
	"github.com/bothy-dev/bothy/internal/review/risk"
	"github.com/bothy-dev/bothy/spec"
)

// Layer is a directory with the changes to a workspace.
type Layer = record.Layer

// Workspace is one directory of the host that a sandbox changes in a layer.
type Workspace struct {
	Source string // the directory
	Layer  Layer
	// Over are relative paths in it that something is mounted over: the layer's files there were
	// not made by the sandbox.
	Over []string
}

// MaxText is the size up to which a file is shown line by line, in bytes.
const MaxText = 1 << 20

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

// Change is one path that differs between the layer and the host.
type Change struct {
	Path string // relative, as bytes: it need not be text
	Kind Kind
	Old  beneath.Entry // on the host, as it is now
	New  beneath.Entry // in the layer
	// Implied marks directories that come or go with their contents.
	Implied bool
	// From is the deleted file with the same content: a rename, as people see it.
	From string
	// Flags say why it may make something run on the host later.
	Flags []risk.Flag
	// Conflict says what the host changed meanwhile; empty if nothing.
	Conflict string
	// Refused says why it cannot be applied in any way; empty if it can.
	Refused string

	// MovedTo are the paths to which the sandbox moved the deleted file, and nowhere else.
	MovedTo []string
	// Heirs are files that the sandbox made of the host's file.
	Heirs []string
	// DeletedIn is how many names right in it are deleted, too.
	DeletedIn int
}

// HasHunks reports whether a change may have hunks to choose from. A link, a directory, a
// deletion or a change of the mode alone has none. Its flags are not those of a text that it may
// have by now.
func (c Change) HasHunks() bool {
	return c.New.Form == beneath.File && (c.Kind == Added || c.Kind == Modified)
}

// MakesWay reports whether a directory replaces a file or a link.
func (c Change) MakesWay() bool {
	return c.New.Form == beneath.Directory && (c.Old.Form == beneath.File || c.Old.Form == beneath.Link)
}

// HostMode returns the mode that a file or a directory gets on the host. Group and others may do no
// more with it than now, and cannot write to a new file. An editor in the sandbox may replace a
// file by a new one with the usual mode, without meaning to change the mode. A change of the mode
// alone is applied as it is: it is shown as such, and has a flag if group or others may write.
func (c Change) HostMode() uint32 {
	shut := uint32(0o022)
	if c.Old.Form == beneath.File {
		shut = 0o066 &^ c.Old.Mode
		shut |= (shut & 0o044) >> 2 &^ c.Old.Mode // without read permission, no execute permission either
	}
	if c.Kind == Mode {
		shut = 0
	}
	return c.New.Mode &^ shut
}

// Chmod returns the mode that a file of the host's gets with another text, and whether it
// differs.
func (c Change) Chmod() (mode uint32, other bool) {
	mode = c.HostMode()
	return mode, c.Kind == Modified && c.New.Form == beneath.File && mode != c.Old.Mode
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
