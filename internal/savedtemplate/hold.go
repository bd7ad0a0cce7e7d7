package savedtemplate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// lockShelf is held for moments, while a template appears, is found, or disappears.
func (s Shelf) lockShelf() (*store.Lock, error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := store.WaitLock(filepath.Join(s.Dir, lockName))
	if err == nil {
		s.sweepLeftovers()
	}
	return lock, err
}

// reading is a template that a command reads, for as long as it takes. Its files do not change
// meanwhile. A replacement or a removal does not wait for the reader.
type reading struct {
	Template
	shelf Shelf
	dir   *os.File // wherever it was moved meanwhile
	held  *store.Lock
}

// openReading finds a template for a caller that reads it until close.
func (s Shelf) openReading(name string) (*reading, error) {
	if _, err := s.Find(name); err != nil {
		return nil, err // do not make a shelf for it
	}
	lock, err := s.lockShelf()
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	t, err := s.Find(name)
	if err != nil {
		return nil, err
	}
	dir, err := os.Open(s.Path(t.Name))
	if err != nil {
		return nil, err
	}
	held, err := store.ShareLock(s.heldPath()) // an exclusive holder also holds the other lock
	if err != nil {
		_ = dir.Close()
		return nil, err
	}
	return &reading{t, s, dir, held}, nil
}

// filePath returns the path of a file of the template, which also works in a process that works for this
// one.
func (r *reading) filePath(name string) string {
	return fmt.Sprintf("/proc/%d/fd/%d/%s", os.Getpid(), r.dir.Fd(), name)
}

// layerDir returns the directory of its root layer, or "" if it has no changes.
func (r *reading) layerDir() string {
	path := r.filePath(layerName)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return path
}

// endReading ends the reading, and removes templates that were discarded meanwhile.
func (r *reading) endReading() {
	_ = r.dir.Close()
	r.held.Unlock()
	if len(r.shelf.discarded()) == 0 {
		return
	}
	if lock, err := r.shelf.lockShelf(); err == nil { // this sweeps
		lock.Unlock()
	}
}

// heldPath is the lock file of all readers of templates.
func (s Shelf) heldPath() string { return filepath.Join(s.Dir, heldName) }

// beginNew makes a directory for a new template. No sweep removes it as long as its lock is held.
func (s Shelf) beginNew() (dir string, mine *store.Lock, err error) {
	lock, err := s.lockShelf()
	if err != nil {
		return "", nil, err
	}
	defer lock.Unlock()
	if dir, err = os.MkdirTemp(s.Dir, newPrefix); err != nil {
		return "", nil, err
	}
	mine, err = store.TryLock(filepath.Join(dir, lockName))
	return dir, mine, err
}

// finish moves a complete template into place.
func (s Shelf) finish(dir, name string) error {
	lock, err := s.lockShelf()
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if err := os.Remove(filepath.Join(dir, lockName)); err != nil {
		return err
	}
	return s.putInPlace(dir, name)
}

// putInPlace moves a complete template into place. Between the two renames the name does not exist; after a
// crash there, the next sweep restores the old one.
func (s Shelf) putInPlace(dir, name string) error {
	old := filepath.Join(s.Dir, oldPrefix+fileName(name))
	err := os.Rename(s.Path(name), old)
	fresh := errors.Is(err, fs.ErrNotExist)
	if err != nil && !fresh {
		return err
	}
	if err := os.Rename(dir, s.Path(name)); err != nil {
		return err
	}
	if fresh {
		return store.SyncDir(s.Dir)
	}
	return s.discard(old)
}

// discard removes a template from its place for good. The caller holds the lock.
func (s Shelf) discard(at string) error {
	if err := s.setAside(at); err != nil {
		return err
	}
	return errors.Join(store.SyncDir(s.Dir), s.removeDiscarded())
}

// setAside moves something to a place where clear finds it. Other templates there may still have
// readers.
func (s Shelf) setAside(at string) error {
	return os.Rename(at, filepath.Join(s.Dir, endPrefix+store.NewID()))
}

// removeDiscarded removes discarded templates, unless a command reads templates: then that command removes them,
// or the next one.
func (s Shelf) removeDiscarded() error {
	held, err := store.TryLock(s.heldPath())
	if errors.Is(err, store.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	defer held.Unlock()
	for _, gone := range s.discarded() {
		err = errors.Join(err, store.RemoveTree(gone))
	}
	return err
}

// discarded lists the directories that clear removes.
func (s Shelf) discarded() (list []string) {
	entries, _ := os.ReadDir(s.Dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), endPrefix) {
			list = append(list, filepath.Join(s.Dir, e.Name()))
		}
	}
	return list
}

// sweepLeftovers removes leftovers of crashed commands, and restores a template that one was about to
// replace.
func (s Shelf) sweepLeftovers() {
	entries, _ := os.ReadDir(s.Dir)
	for _, e := range entries {
		at := filepath.Join(s.Dir, e.Name())
		if name, old := strings.CutPrefix(e.Name(), oldPrefix); old {
			place := filepath.Join(s.Dir, name)
			if _, err := os.Lstat(place); errors.Is(err, fs.ErrNotExist) {
				_ = os.Rename(at, place)
			} else if err == nil {
				_ = s.setAside(at)
			}
		}
		if strings.HasPrefix(e.Name(), newPrefix) && !beingMade(at) {
			_ = store.RemoveTree(at)
		}
	}
	_ = s.removeDiscarded()
}

// beingMade reports whether a command makes a template in a directory.
func beingMade(dir string) bool { return store.IsLocked(filepath.Join(dir, lockName)) }

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
