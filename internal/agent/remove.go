package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// IDs returns the installations of a release, or all if it is empty. It includes damaged ones, which
// [Home.List] leaves out.
func (h Home) IDs(release string) ([]string, error) {
	entries, err := os.ReadDir(h.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var ids []string
	for _, e := range entries {
		if id := e.Name(); validID(id) && (release == "" || id == release || strings.HasPrefix(id, release+"+")) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// Remove removes an installation, even a damaged one, unless inUse returns an error. Nothing is
// installed under that name meanwhile. The caller must ensure that no sandbox starts to use it.
func Remove(st *store.Store, name, id string, inUse func() error) error {
	h, err := HomeOf(st, name)
	if err != nil {
		return err
	}
	dir := filepath.Join(h.dir, id)
	if _, err := os.Lstat(dir); err != nil || !validID(id) {
		return spec.Errorf(spec.ErrNotFound, "%s %s is not installed", name, id)
	}
	lock, err := store.TryLock(h.Lock())
	if errors.Is(err, store.ErrLocked) {
		return spec.Errorf(spec.ErrConflict, "another process installs %s just now", name).WithHint("try again when it is done")
	}
	if err != nil {
		return err
	}
	defer lock.Unlock()
	gone := filepath.Join(h.dir, gonePrefix+unique())
	if inUse != nil {
		err = inUse()
	}
	if err == nil {
		err = os.Rename(dir, gone)
	}
	if err == nil {
		err = os.RemoveAll(gone)
	}
	if err != nil {
		return &spec.Error{Op: "remove " + name + " " + id, Err: err}
	}
	return nil
}
