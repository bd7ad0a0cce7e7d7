// Package clone makes a private clone of the user's repository for a sandbox to work on, and
// fetches its commits back.
//
// # Out of the user's repository
//
// git runs on the host, but never in a repository that another user or a sandbox may have written
// to. It gets a git directory of ours, with a configuration of a few lines, and the user's
// objects as data (GIT_ALTERNATE_OBJECT_DIRECTORIES). So git ignores every hook, filter, include,
// file system monitor, credential helper and lazy fetch of the user's repository, of the system's
// configuration and of the home. This package reads HEAD and references, beneath the git
// directory. It copies only the history of HEAD. Then git checks HEAD out of the copy, which has
// no alternates, no hooks and no filters.
//
// # Out of the sandbox
//
// The sandbox owns the clone from its first start on. No program of the host reads its git
// directory. git runs in the sandbox, and sends a list of branches and a pack over pipes. This
// package judges the list. It indexes and checks the pack as git checks a hostile server's
// (index-pack --strict, then that no object is missing), in a directory of ours that is thrown
// away. Only then does it put the pack beside the others in the user's repository, and writes
// references below refs/remotes/bothy/. git is not run there at all.
package clone

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Clone is the private clone of one workspace.
type Clone struct {
	spec.Mount        // the user's repository, and where the sandbox sees the clone
	Dir        string // the clone's own directory
}

// Of returns the clones of a sandbox; dir gives the directory of its n-th workspace's clone.
func Of(sb *spec.Sandbox, dir func(n int) string) []Clone {
	var list []Clone
	for i, m := range sb.Workspaces {
		if sb.Clones(m) {
			list = append(list, Clone{m, dir(i)})
		}
	}
	return list
}

// Tree returns the directory that is mounted: the files, and .git.
func (c Clone) Tree() string { return Tree(c.Dir) }

// Tree returns [Clone.Tree] of the clone in a directory.
func Tree(dir string) string { return filepath.Join(dir, "tree") }

func (c Clone) record() string { return filepath.Join(c.Dir, "record.json") }

// inboxDir is the directory in which a pack is checked before it reaches the user's repository.
func (c Clone) inboxDir() string { return filepath.Join(c.Dir, "inbox") }

// Record is the host's own data about a clone, kept outside of the clone.
type Record struct {
	Version int    `json:"version"`
	Git     string `json:"git"`              // the git directory it was made from, and is fetched into
	Branch  string `json:"branch,omitempty"` // that was checked out; empty: none
	Commit  string `json:"commit"`           // it began with
	// At is when it was made, or last fetched from.
	At time.Time `json:"at"`
	// Fetched are the branches that the host has, and Head the sandbox's commit that was checked
	// out without a branch, at the last fetch.
	Fetched map[string]string `json:"fetched,omitempty"`
	Head    string            `json:"head,omitempty"`
	// Unsaved says that the last fetch left something behind: uncommitted files, or branches that
	// were refused or not asked for.
	Unsaved bool `json:"unsaved,omitempty"`
}

// Record reads the clone's record.
func (c Clone) Record() (*Record, error) {
	r := &Record{}
	if err := store.ReadJSON(c.record(), r); err != nil {
		return nil, err
	}
	return r, nil
}

func (c Clone) writeRecord(r *Record) error { return store.WriteJSON(c.record(), r) }

// Fork prepares the place of another clone, which will get the files of this one. Nothing was
// fetched from it, so all of its contents count as work.
func (c Clone) Fork(dir string) error {
	r, err := c.Record()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(Tree(dir), 0o777); err != nil {
		return err
	}
	r.At, r.Fetched, r.Head, r.Unsaved = time.Now().UTC(), nil, "", true
	return Clone{Dir: dir}.writeRecord(r)
}

// Arrive prepares the place of a clone that was made elsewhere, of another repository. Fetches
// from it go into the given repository.
func (c Clone) Arrive(r *Record, into *Repository) error {
	if err := os.MkdirAll(c.Tree(), 0o777); err != nil {
		return err
	}
	there := *r
	there.Git, there.At, there.Fetched, there.Head, there.Unsaved = into.Git, time.Now().UTC(), nil, "", true
	return c.writeRecord(&there)
}

// Changed notes that a clone's files were replaced from outside: all of them count as work.
func (c Clone) Changed() error {
	r, err := c.Record()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	r.Fetched, r.Head, r.Unsaved = nil, "", true
	return c.writeRecord(r)
}

// clearInbox removes the inbox of an interrupted fetch.
func (c Clone) clearInbox() error {
	if _, err := os.Lstat(c.inboxDir()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return store.RemoveTree(c.inboxDir())
}

// Adopt makes a workspace's place in a sandbox fetchable as if it contained a clone of the
// repository. It contains the repository itself, with a layer over it that has the sandbox's
// commits. Its git directory is the user's, and must be one that [Make] could clone.
func (c Clone) Adopt() error {
	if _, err := os.Lstat(c.record()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	repo, err := Locate(c.Source)
	if err != nil {
		return err
	}
	root, err := hostpath.OpenRealRoot(repo.Git)
	if err != nil {
		return err
	}
	defer root.Close()
	rec := &Record{Version: spec.Version, Git: repo.Git, At: time.Now().UTC()}
	if rec.Branch, rec.Commit, err = repo.readHead(root); err != nil {
		return err
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return err
	}
	return store.WriteJSON(c.record(), rec)
}
