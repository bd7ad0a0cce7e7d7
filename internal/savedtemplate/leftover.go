package savedtemplate

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Leftover is a directory of a template whose command was killed while the template was made, or after
// it was replaced or removed. It is busy if a command still works on it.
type Leftover struct {
	Path string
	Busy bool
}

// Leftovers returns all leftovers.
func (s Shelf) Leftovers() ([]Leftover, error) {
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !s.isLeftover(e.Name()) })
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	lock, err := store.TryLock(filepath.Join(s.Dir, lockName))
	locked := errors.Is(err, store.ErrLocked)
	if err == nil {
		defer lock.Unlock()
	} else if !locked {
		return nil, err
	}
	var list []Leftover
	for _, e := range entries {
		list = append(list, Leftover{filepath.Join(s.Dir, e.Name()), locked || s.isBusy(e.Name())})
	}
	return list, nil
}

// RemoveLeftover removes a leftover, unless a command works on it.
func (s Shelf) RemoveLeftover(path string) error {
	lock, err := store.TryLock(filepath.Join(s.Dir, lockName))
	if err == nil {
		defer lock.Unlock()
		s.sweepLeftovers()
		if _, err = os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	if err != nil && !errors.Is(err, store.ErrLocked) {
		return err
	}
	return spec.Errorf(spec.ErrConflict, "a template is being made or read").WithHint("try again when that is done")
}

// isLeftover reports whether a directory is a template being made, or an old template.
func (s Shelf) isLeftover(entry string) bool {
	if name, old := strings.CutPrefix(entry, oldPrefix); old { // unless it is to be restored
		_, err := os.Lstat(filepath.Join(s.Dir, name))
		return !errors.Is(err, fs.ErrNotExist)
	}
	return strings.HasPrefix(entry, newPrefix) || strings.HasPrefix(entry, endPrefix)
}

// isBusy reports whether a command fills a directory, or may read it. The caller holds the lock.
func (s Shelf) isBusy(entry string) bool {
	if strings.HasPrefix(entry, newPrefix) {
		return beingMade(filepath.Join(s.Dir, entry))
	}
	held, err := store.TryLock(s.heldPath())
	if err == nil {
		held.Unlock()
	}
	return errors.Is(err, store.ErrLocked)
}
