package clone

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

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
	root, err := openDir(repo.Git)
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
