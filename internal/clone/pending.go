package clone

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// Bounds of the look into a clone. What is not seen counts as work.
const (
	maxLook   = 5 * time.Second
	maxLooked = 2_000_000
)

var errWork = errors.New("there is work in it")

// Pending tells whether there may be work in a clone that the host does not have:
// commits that were not fetched, or files written since it was made or last fetched
// from. It reads what the inside wrote, and believes it only where that says no:
// whoever wants to lose work may.
func (c Clone) Pending() bool {
	rec, err := c.Record()
	if err != nil || rec.Unsaved {
		return true
	}
	root, err := os.OpenRoot(c.Tree())
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer root.Close()
	return committed(root, rec) != nil || written(root, rec.At) != nil
}

// committed is an error if a branch is at a commit that the host does not have.
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
	all, err := openRefs(root)
	if err != nil {
		return err
	}
	if _, err := all.resolve("refs/stash"); err == nil {
		return errWork
	}
	list, err := all.list(heads)
	if err != nil {
		return err
	}
	if all.broken { // while the sandbox runs, it may be only half written
		return errWork
	}
	for name, hash := range list {
		if hash != rec.Commit && hash != rec.Fetched[name[len(heads):]] {
			return errWork
		}
	}
	text, err := readIn(root, "HEAD", maxRef)
	if err != nil {
		return err
	}
	if _, hash, err := target(text); err != nil || hash != "" && hash != rec.Commit && hash != rec.Head {
		return errWork
	}
	return nil
}

// written is an error if something outside of .git was written since.
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
		// What is moved in keeps its own time.
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || time.Unix(st.Ctim.Unix()).After(since) {
			return errWork
		}
		return nil
	})
}
