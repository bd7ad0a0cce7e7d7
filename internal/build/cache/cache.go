// Package cache keeps results of builds. It stores the root that each step made, for the
// next build with the same step on the same root, and the cache directories of RUN steps.
//
// A step is stored under its key, complete or not at all, and never changes.
package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Shelf is the directory of the cache. It need not exist.
type Shelf struct{ Dir string }

// Step describes a stored step.
type Step struct {
	Version int       `json:"version"`
	Name    string    `json:"name"`            // as in the Dockerfile
	Base    string    `json:"base"`            // the digest of the image below its root
	Image   string    `json:"image,omitempty"` // the digest of the image made from it, if the step made one
	Made    time.Time `json:"made"`
	// Key is the key it is stored under.
	Key string `json:"-"`
}

const version = 1

// Names in the shelf, and in the directories of steps and builds.
const (
	stepsName   = "steps"
	aboutName   = "step.json"
	layerName   = "layer"
	newPrefix   = ".new-"
	gonePrefix  = ".gone-"
	cachesName  = "caches"
	workPrefix  = "work-"
	lockName    = "lock"
	contextName = "context"
)

// lockPath is the shelf's lock: builds share it, and a process that removes something holds it
// alone.
func (s Shelf) lockPath() string { return filepath.Join(s.Dir, lockName) }

func (s Shelf) stepsDir() string { return filepath.Join(s.Dir, stepsName) }

// Path returns the directory of a step, Layer the directory of its changes to the root.
func (s Shelf) Path(key string) string  { return filepath.Join(s.stepsDir(), key) }
func (s Shelf) Layer(key string) string { return filepath.Join(s.Path(key), layerName) }

// Find returns a step and records the use.
func (s Shelf) Find(key string) (Step, bool) {
	step, err := s.readStep(key)
	if err != nil {
		return step, false
	}
	now := time.Now()
	_ = os.Chtimes(filepath.Join(s.Path(key), aboutName), now, now) // only prune reads it
	return step, true
}

func (s Shelf) readStep(key string) (Step, error) {
	var step Step
	err := store.ReadJSON(filepath.Join(s.Path(key), aboutName), &step)
	if err == nil && step.Version < version {
		err = errors.New("it is of another version")
	}
	step.Key = key
	return step, err
}

// Put adds a step. fill makes its layer in a directory that does not exist yet; nil for
// none. If two builds have made the same step, the first one stays, unless replace is set.
func (s Shelf) Put(key string, step Step, replace bool, fill func(layer string) error) error {
	if err := os.MkdirAll(s.stepsDir(), 0o700); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(s.stepsDir(), newPrefix)
	if err != nil {
		return err
	}
	defer func() { _ = store.RemoveTree(dir) }() // once the step is in place, this name does not exist any more
	if fill != nil {
		if err := fill(filepath.Join(dir, layerName)); err != nil {
			return err
		}
	}
	step.Version = version
	if err := store.WriteJSON(filepath.Join(dir, aboutName), step); err != nil {
		return err
	}
	if err := store.SyncFS(dir); err != nil {
		return err
	}
	if _, err := s.readStep(key); errors.Is(err, spec.ErrNewer) {
		return err
	} else if err != nil || replace { // of an earlier version, or damaged
		if err := remove(s.Path(key)); err != nil { // by renaming first, so a step is never partial
			return err
		}
	}
	if err := os.Rename(dir, s.Path(key)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return store.SyncDir(s.stepsDir())
}

// Steps returns all steps.
func (s Shelf) Steps() ([]Step, error) {
	entries, err := os.ReadDir(s.stepsDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var list []Step
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		step, rerr := s.readStep(e.Name())
		if rerr != nil {
			step.Name = e.Name()
		}
		list = append(list, step)
	}
	return list, err
}

// Used returns the time of the last use of a step or a cache.
func Used(path string) time.Time {
	for _, p := range []string{filepath.Join(path, aboutName), path} {
		if info, err := os.Stat(p); err == nil {
			return info.ModTime()
		}
	}
	return time.Time{}
}

// Remove removes a step or a cache. While any build runs, it returns [store.ErrLocked]. No
// build can begin meanwhile.
func (s Shelf) Remove(path string) error {
	lock, err := store.TryLock(s.lockPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if errors.Is(err, store.ErrLocked) {
		return spec.Errorf(spec.ErrConflict, "a build runs, or what builds left is being removed: %w", err)
	}
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return remove(path)
}

// remove removes a step or a cache. It renames it first.
func remove(path string) error {
	gone, err := os.MkdirTemp(filepath.Dir(path), gonePrefix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err = os.Rename(path, filepath.Join(gone, filepath.Base(path))); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if rerr := store.RemoveTree(gone); !errors.Is(rerr, fs.ErrNotExist) { // a new build may have swept it
		err = errors.Join(err, rerr)
	}
	return err
}

// Cache returns the path of the archive of a RUN step's cache directory, by its name in Dockerfiles.
func (s Shelf) Cache(id string) string {
	sum := sha256.Sum256([]byte(id))
	return filepath.Join(s.Dir, cachesName, hex.EncodeToString(sum[:])+".tar")
}

// TryCache locks a cache for one step. While another step holds it, it returns
// [store.ErrLocked].
func (s Shelf) TryCache(id string) (*store.Lock, error) {
	if err := os.MkdirAll(filepath.Join(s.Dir, cachesName), 0o700); err != nil {
		return nil, err
	}
	return store.TryLock(strings.TrimSuffix(s.Cache(id), ".tar") + ".lock")
}

// Caches returns the paths of all caches.
func (s Shelf) Caches() ([]string, error) {
	return filepath.Glob(filepath.Join(s.Dir, cachesName, "*.tar"))
}

// Work is the directory and the locks of a running build.
type Work struct {
	dir   string
	lock  *store.Lock
	shelf *store.Lock // shared with other builds
}

// Begin makes a Work. Its directory gets its name only once its lock is held, so a process that sees the
// directory also sees that the build runs. While the build runs, nothing is removed from the shelf.
func (s Shelf) Begin() (*Work, error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, err
	}
	s.Sweep()
	shelf, err := store.ShareLock(s.lockPath())
	if err != nil {
		return nil, err
	}
	w, err := s.newWork()
	if err != nil {
		shelf.Unlock()
		return nil, err
	}
	w.shelf = shelf
	return w, nil
}

func (s Shelf) newWork() (*Work, error) {
	dir, err := os.MkdirTemp(s.Dir, newPrefix)
	if err != nil {
		return nil, err
	}
	w := &Work{dir: dir}
	if w.lock, err = store.TryLock(w.Lock()); err == nil {
		err = os.Mkdir(w.Context(), 0o700)
	}
	if err == nil {
		w.dir = filepath.Join(s.Dir, workPrefix+strings.TrimPrefix(filepath.Base(dir), newPrefix))
		err = os.Rename(dir, w.dir)
	}
	if err != nil {
		_ = store.RemoveTree(dir)
		if w.lock != nil {
			w.lock.Unlock()
		}
		return nil, err
	}
	return w, nil
}

// Lock returns the path of the lock that is held while the build runs. Context returns the directory of
// the files that the build copies from.
func (w *Work) Lock() string    { return filepath.Join(w.dir, lockName) }
func (w *Work) Context() string { return filepath.Join(w.dir, contextName) }

// End removes the files of the build.
func (w *Work) End() error {
	err := store.RemoveTree(w.Context())
	for _, p := range []string{w.Lock(), w.dir} { // a directory with a lock has an owner
		if rerr := os.Remove(p); !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
	}
	w.lock.Unlock()
	w.shelf.Unlock()
	return err
}

// Running reports whether the owner of this lock still runs. It does not create a missing lock.
func Running(lock string) bool { return store.IsLocked(lock) }

// Busy reports whether any build runs.
func (s Shelf) Busy() bool {
	works, _ := filepath.Glob(filepath.Join(s.Dir, workPrefix+"*"))
	return slices.ContainsFunc(works, func(work string) bool { return Running(filepath.Join(work, lockName)) })
}

// newAge is the age after which an unfinished new build counts as killed.
const newAge = time.Minute

// Sweep removes the files that killed builds left.
func (s Shelf) Sweep() {
	s.sweepWorks()
	if s.Busy() {
		return // a running build may own the unfinished files
	}
	for _, dir := range []string{s.stepsDir(), filepath.Join(s.Dir, cachesName)} {
		for _, prefix := range []string{newPrefix, gonePrefix} {
			left, _ := filepath.Glob(filepath.Join(dir, prefix+"*"))
			for _, p := range left {
				_ = store.RemoveTree(p)
			}
		}
		store.SweepTemp(dir, newAge)
	}
}

// sweepWorks removes the directories of builds whose lock is free.
func (s Shelf) sweepWorks() {
	for _, prefix := range []string{workPrefix, newPrefix} {
		works, _ := filepath.Glob(filepath.Join(s.Dir, prefix+"*"))
		for _, w := range works {
			lock := filepath.Join(w, lockName)
			_, err := os.Lstat(lock)
			if (err != nil || prefix == newPrefix) && time.Since(Used(w)) < newAge {
				continue // it is being removed, or is beginning
			}
			if !Running(lock) {
				_ = store.RemoveTree(w)
			}
		}
	}
}
