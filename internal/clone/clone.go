// Package clone answers what a sandbox works on that has a private clone of a
// repository in the place of the user's, and how its commits come back.
//
// # Out of the user's repository
//
// git runs on the host, but never in a repository that somebody else may have
// written to: it is given a git directory of ours, with a configuration of a few
// lines, and the user's objects as data (GIT_ALTERNATE_OBJECT_DIRECTORIES). So no
// hook, filter, include, file system monitor, credential helper or lazy fetch that
// stands in the user's repository, in the system's configuration or in the home
// counts for anything. HEAD and references are read by this package, beneath the
// git directory. What is copied is the history of HEAD and nothing else; then git
// checks HEAD out of the copy, which has no alternates, no hooks and no filters.
//
// # Out of the sandbox
//
// The clone is the inside's from its first start on. No program of the host reads
// its git directory: git runs inside, and what comes out is a list of branches and a
// pack, over pipes. The list is judged here. The pack is indexed and checked as git
// checks what a hostile server sends (index-pack --strict, then that everything is
// there), in a directory of ours that is thrown away. Only then it is put into the
// user's repository, by this package: the pack beside the others, and references
// below refs/remotes/bothy/. git is not run there at all.
package clone

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Clone is the private clone of one workspace.
type Clone struct {
	spec.Mount        // where the user's repository lies, and where the clone is seen
	Dir        string // what is kept of it lies here
}

// Of are the clones of a sandbox; dir says where that of its n-th workspace lies.
func Of(sb *spec.Sandbox, dir func(n int) string) []Clone {
	var list []Clone
	for i, m := range sb.Workspaces {
		if sb.Clones(m) {
			list = append(list, Clone{m, dir(i)})
		}
	}
	return list
}

// Tree is the directory that is mounted: the files, and .git.
func (c Clone) Tree() string { return Tree(c.Dir) }

// Tree is [Clone.Tree] of a clone that lies in a directory.
func Tree(dir string) string { return filepath.Join(dir, "tree") }

func (c Clone) record() string { return filepath.Join(c.Dir, "record.json") }

// inbox is where a pack is looked at before it is the user's.
func (c Clone) inbox() string { return filepath.Join(c.Dir, "inbox") }

// Record is what is known of a clone without looking into it.
type Record struct {
	Version int    `json:"version"`
	Git     string `json:"git"`              // the git directory it was made from, and is fetched into
	Branch  string `json:"branch,omitempty"` // that was checked out; empty: none was
	Commit  string `json:"commit"`           // it began with
	// At is when it was made, or last fetched from.
	At time.Time `json:"at"`
	// Fetched are the branches the host has, and Head what was checked out inside
	// without a branch, as they were then.
	Fetched map[string]string `json:"fetched,omitempty"`
	Head    string            `json:"head,omitempty"`
	// Unsaved says that there was then what a fetch leaves behind: files that are
	// not committed, branches that were refused, or not asked for.
	Unsaved bool `json:"unsaved,omitempty"`
}

// Record reads what is known.
func (c Clone) Record() (*Record, error) {
	r := &Record{}
	if err := store.ReadJSON(c.record(), r); err != nil {
		return nil, err
	}
	return r, nil
}

func (c Clone) write(r *Record) error { return store.WriteJSON(c.record(), r) }

// Fork prepares the place of another clone, whose files are to be those of this one.
// Nothing was fetched from it, so that all in it counts as work.
func (c Clone) Fork(dir string) error {
	r, err := c.Record()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(Tree(dir), 0o777); err != nil {
		return err
	}
	r.At, r.Fetched, r.Head, r.Unsaved = time.Now().UTC(), nil, "", true
	return Clone{Dir: dir}.write(r)
}

// Arrive prepares the place of a clone that was made elsewhere, of another repository:
// what is fetched from it goes into this one.
func (c Clone) Arrive(r *Record, into *Repository) error {
	if err := os.MkdirAll(c.Tree(), 0o777); err != nil {
		return err
	}
	there := *r
	there.Git, there.At, there.Fetched, there.Head, there.Unsaved = into.Git, time.Now().UTC(), nil, "", true
	return c.write(&there)
}

// Changed notes that the files of a clone were replaced from outside: all in it counts
// as work.
func (c Clone) Changed() error {
	r, err := c.Record()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	r.Fetched, r.Head, r.Unsaved = nil, "", true
	return c.write(r)
}

// clearInbox removes what a fetch that broke off has left.
func (c Clone) clearInbox() error {
	if _, err := os.Lstat(c.inbox()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return store.RemoveTree(c.inbox())
}
