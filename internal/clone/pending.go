package clone

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bothy-dev/bothy/internal/hostpath"
)

// Limits of the look into a clone. Unseen files count as work.
const (
	maxLook   = 5 * time.Second
	maxLooked = 2_000_000
)

var errWork = errors.New("there is work in it")

// Work is the kind of work in a clone that the host does not have. A greater one includes the others.
type Work int

// Kinds of work.
const (
	NoWork     Work = iota
	InFiles         // files were written since the clone was made or last fetched from, or are not committed
	NotFetched      // commits were not fetched, or it cannot be told
)

// Pending returns the work of a clone that the host may not have. It reads files that the sandbox wrote. A
// sandbox that hides its work there can only lose that work.
func (c Clone) Pending() Work {
	rec, err := c.Record()
	if err != nil {
		return NotFetched
	}
	root, err := os.OpenRoot(c.Tree())
	switch {
	case errors.Is(err, fs.ErrNotExist) && !rec.Unsaved:
		return NoWork
	case err != nil:
		return NotFetched
	}
	defer root.Close()
	switch {
	case committed(root, rec) != nil, rec.Unsaved && c.hasSubmodules(): // their commits are not looked at again
		return NotFetched
	case rec.Unsaved, written(root, rec.At) != nil:
		return InFiles
	}
	return NoWork
}

// committed fails if a reference or HEAD is at an object that the host does not have, or if a
// submodule was written to since.
func committed(tree *os.Root, rec *Record) error {
	if info, err := tree.Lstat(".git"); err != nil || !info.IsDir() {
		return errWork
	}
	root, err := tree.OpenRoot(".git")
	if err != nil {
		return err
	}
	defer root.Close()
	if _, err := root.Lstat("reftable"); err == nil {
		return errWork // we cannot tell
	}
	if err := referred(root, rec); err != nil {
		return err
	}
	checkedOut, err := fs.Glob(root.FS(), "worktrees/*/HEAD")
	for _, name := range append(checkedOut, "HEAD") {
		if err == nil {
			err = detached(root, name, rec)
		}
	}
	if err != nil {
		return err
	}
	submodules, err := root.OpenRoot("modules")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer submodules.Close()
	return written(submodules, rec.At)
}

// referred fails if a reference is at an object that the host does not have. The host must have a
// branch under its name, and any other reference's object under any name. References of remotes
// count as saved.
func referred(root *os.Root, rec *Record) error {
	all, err := openRefs(root)
	if err != nil {
		return err
	}
	list, err := all.listRefs("refs/")
	if err != nil {
		return err
	}
	if all.broken { // while the sandbox runs, it may be only half written
		return errWork
	}
	var others []string
	for name, hash := range list {
		branch, is := strings.CutPrefix(name, heads)
		switch {
		case strings.HasPrefix(name, remotes), hash == rec.Commit:
		case is && hash != rec.Fetched[branch]:
			return errWork
		case !is:
			others = append(others, hash)
		}
	}
	if len(others) > 0 && !rec.hasObjects(others) {
		return errWork
	}
	return nil
}

// hasObjects reports whether the host has all of these objects: one of the user's references is at each,
// or it was fetched.
func (r *Record) hasObjects(objects []string) bool {
	has := map[string]bool{}
	for hash := range maps.Values(r.Fetched) {
		has[hash] = true
	}
	if root, err := hostpath.OpenRealRoot(r.Git); err == nil {
		defer root.Close()
		if theirs, err := openRefs(root); err == nil {
			list, _ := theirs.listRefs("refs/")
			for hash := range maps.Values(list) {
				has[hash] = true
			}
		}
	}
	return !slices.ContainsFunc(objects, func(hash string) bool { return !has[hash] })
}

// detached fails if HEAD is at a commit without a branch that the host does not have.
func detached(root *os.Root, name string, rec *Record) error {
	text, err := readIn(root, name, maxRef)
	if err != nil {
		return err
	}
	if _, hash, err := target(text); err != nil || hash != "" && hash != rec.Commit && hash != rec.Head {
		return errWork
	}
	return nil
}

// written fails if a file outside of .git was written since.
func written(root *os.Root, since time.Time) error {
	seen, late := 0, time.Now().Add(maxLook)
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name == ".git" {
			return fs.SkipDir
		}
		if seen++; seen > maxLooked || seen%256 == 0 && time.Now().After(late) {
			return errWork
		}
		if name == "." { // a start may make mount points in it
			return nil
		}
		info, err := d.Info()
		if err != nil || info.ModTime().After(since) {
			return errWork
		}
		// A file that was moved in keeps its own modification time, so the change time counts.
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || time.Unix(st.Ctim.Unix()).After(since) {
			return errWork
		}
		return nil
	})
}
