package saved

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bothy-dev/bothy/internal/store"
)

// lock is held while a template appears, is found, or goes: for moments.
func (s Shelf) lock() (*store.Lock, error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := store.WaitLock(filepath.Join(s.Dir, lockName))
	if err == nil {
		s.sweep()
	}
	return lock, err
}

// reading is a template that somebody reads, for as long as it takes. Its files stay as
// they are meanwhile, also when it is replaced or removed: that waits for nobody.
type reading struct {
	Template
	shelf Shelf
	dir   *os.File // wherever that is by now
	held  *store.Lock
}

// read finds a template, for somebody who reads it until close.
func (s Shelf) read(name string) (*reading, error) {
	if _, err := s.Find(name); err != nil {
		return nil, err // and makes no shelf for it
	}
	lock, err := s.lock()
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
	held, err := store.ShareLock(s.held()) // who has it alone holds the other lock, too
	if err != nil {
		_ = dir.Close()
		return nil, err
	}
	return &reading{t, s, dir, held}, nil
}

// path is that of a file of the template, also for a process that works for this one.
func (r *reading) path(name string) string {
	return fmt.Sprintf("/proc/%d/fd/%d/%s", os.Getpid(), r.dir.Fd(), name)
}

// layer is the directory of its root layer; "" if nothing was changed in it.
func (r *reading) layer() string {
	path := r.path(layerName)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return path
}

// close ends it, and sees to what has gone meanwhile.
func (r *reading) close() {
	_ = r.dir.Close()
	r.held.Unlock()
	if len(r.shelf.discarded()) == 0 {
		return
	}
	if lock, err := r.shelf.lock(); err == nil { // which sweeps
		lock.Unlock()
	}
}

// held is locked by all who read templates.
func (s Shelf) held() string { return filepath.Join(s.Dir, heldName) }

// begin makes a directory for a new template, which nobody sweeps away as long as
// its lock is held.
func (s Shelf) begin() (dir string, mine *store.Lock, err error) {
	lock, err := s.lock()
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

// finish puts a complete template in its place.
func (s Shelf) finish(dir, name string) error {
	lock, err := s.lock()
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if err := os.Remove(filepath.Join(dir, lockName)); err != nil {
		return err
	}
	return s.put(dir, name)
}

// put gives a complete template its place. Between the two renames there is none
// of the name; after a crash there the old one comes back with the next sweep.
func (s Shelf) put(dir, name string) error {
	old := filepath.Join(s.Dir, oldPrefix+file(name))
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

// discard takes a template off its place for good. The caller holds the lock.
func (s Shelf) discard(at string) error {
	if err := s.setAside(at); err != nil {
		return err
	}
	return errors.Join(store.SyncDir(s.Dir), s.clear())
}

// setAside puts something where clear finds it. What else lies there may still be read.
func (s Shelf) setAside(at string) error {
	return os.Rename(at, filepath.Join(s.Dir, endPrefix+store.NewID()))
}

// clear removes what was discarded, unless somebody reads templates: then it is theirs to
// see to, or the next command's.
func (s Shelf) clear() error {
	held, err := store.TryLock(s.held())
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

// discarded are the directories that clear is to remove.
func (s Shelf) discarded() (list []string) {
	entries, _ := os.ReadDir(s.Dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), endPrefix) {
			list = append(list, filepath.Join(s.Dir, e.Name()))
		}
	}
	return list
}

// sweep removes what crashed commands left, and puts back what one was about to
// replace.
func (s Shelf) sweep() {
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
	_ = s.clear()
}

// beingMade tells whether somebody makes a template in a directory.
func beingMade(dir string) bool { return store.IsLocked(filepath.Join(dir, lockName)) }
