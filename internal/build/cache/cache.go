// Package cache keeps what builds leave: what each step has made of a root, for the
// next build that has the same step on the same root, and the directories that RUN
// steps keep for themselves.
//
// A step lies under its key, complete or not there at all, and never changes.
package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Shelf is the directory all of it lies in. It need not exist.
type Shelf struct{ Dir string }

// Step is what is written down about one.
type Step struct {
	Version int       `json:"version"`
	Name    string    `json:"name"`            // as the Dockerfile has it
	Base    string    `json:"base"`            // the digest of the image its root lies over
	Image   string    `json:"image,omitempty"` // the digest of the image that was made of it, if that is what it did
	Made    time.Time `json:"made"`
	// Key is what it lies under.
	Key string `json:"-"`
}

const version = 1

// In the shelf, and in the directories of steps and builds.
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

// lock is that of the shelf: builds have it together, who removes something has it alone.
func (s Shelf) lock() string { return filepath.Join(s.Dir, lockName) }

func (s Shelf) steps() string { return filepath.Join(s.Dir, stepsName) }

// Path is the directory of a step, Layer what it has changed in its root.
func (s Shelf) Path(key string) string  { return filepath.Join(s.steps(), key) }
func (s Shelf) Layer(key string) string { return filepath.Join(s.Path(key), layerName) }

// Find gives a step, and notes that it was of use.
func (s Shelf) Find(key string) (Step, bool) {
	step, err := s.read(key)
	if err != nil {
		return step, false
	}
	now := time.Now()
	_ = os.Chtimes(filepath.Join(s.Path(key), aboutName), now, now) // it only tells prune
	return step, true
}

func (s Shelf) read(key string) (Step, error) {
	var step Step
	err := store.ReadJSON(filepath.Join(s.Path(key), aboutName), &step)
	if err == nil && step.Version < version {
		err = errors.New("it is of another version")
	}
	step.Key = key
	return step, err
}

// Put adds a step. Fill makes its layer, a directory that is not there yet; nil for none.
// Where two builds have made the same step the first stays, unless it is to be replaced.
func (s Shelf) Put(key string, step Step, replace bool, fill func(layer string) error) error {
	if err := os.MkdirAll(s.steps(), 0o700); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(s.steps(), newPrefix)
	if err != nil {
		return err
	}
	defer func() { _ = store.RemoveTree(dir) }() // nothing has that name once it is in its place
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
	if _, err := s.read(key); errors.Is(err, spec.ErrNewer) {
		return err
	} else if err != nil || replace { // of an earlier version, or damaged
		if err := remove(s.Path(key)); err != nil { // out of sight first: it is never half there
			return err
		}
	}
	if err := os.Rename(dir, s.Path(key)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return store.SyncDir(s.steps())
}

// Steps gives all there are.
func (s Shelf) Steps() ([]Step, error) {
	entries, err := os.ReadDir(s.steps())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var list []Step
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		step, rerr := s.read(e.Name())
		if rerr != nil {
			step.Name = e.Name()
		}
		list = append(list, step)
	}
	return list, err
}

// Used is when a step, or a cache, was last of use.
func Used(path string) time.Time {
	for _, p := range []string{filepath.Join(path, aboutName), path} {
		if info, err := os.Stat(p); err == nil {
			return info.ModTime()
		}
	}
	return time.Time{}
}

// Remove removes a step, or a cache, that no build uses: [store.ErrLocked] while any
// runs. None begins meanwhile.
func (s Shelf) Remove(path string) error {
	lock, err := store.TryLock(s.lock())
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

// remove removes a step, or a cache, out of sight first.
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
	if rerr := store.RemoveTree(gone); !errors.Is(rerr, fs.ErrNotExist) { // a build that begins sweeps
		err = errors.Join(err, rerr)
	}
	return err
}

// Cache is the archive of a directory that RUN steps keep for themselves, by its name
// in Dockerfiles.
func (s Shelf) Cache(id string) string {
	sum := sha256.Sum256([]byte(id))
	return filepath.Join(s.Dir, cachesName, hex.EncodeToString(sum[:])+".tar")
}

// TryCache takes a cache for one step. While somebody else has it, it is
// [store.ErrLocked].
func (s Shelf) TryCache(id string) (*store.Lock, error) {
	if err := os.MkdirAll(filepath.Join(s.Dir, cachesName), 0o700); err != nil {
		return nil, err
	}
	return store.TryLock(strings.TrimSuffix(s.Cache(id), ".tar") + ".lock")
}

// Caches gives the paths of all caches.
func (s Shelf) Caches() ([]string, error) {
	return filepath.Glob(filepath.Join(s.Dir, cachesName, "*.tar"))
}

// Work is what a build has while it runs.
type Work struct {
	dir   string
	lock  *store.Lock
	shelf *store.Lock // with other builds
}

// Begin makes one. It has its name only with its lock, so that whoever sees it sees that
// it runs; and as long as it runs nothing is removed from the shelf.
func (s Shelf) Begin() (*Work, error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, err
	}
	s.Sweep()
	shelf, err := store.ShareLock(s.lock())
	if err != nil {
		return nil, err
	}
	w, err := s.begin()
	if err != nil {
		shelf.Unlock()
		return nil, err
	}
	w.shelf = shelf
	return w, nil
}

func (s Shelf) begin() (*Work, error) {
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

// Lock is the path of the lock that is held as long as the build runs, Context the
// directory of the files it copies from.
func (w *Work) Lock() string    { return filepath.Join(w.dir, lockName) }
func (w *Work) Context() string { return filepath.Join(w.dir, contextName) }

// End removes it.
func (w *Work) End() error {
	err := store.RemoveTree(w.Context())
	for _, p := range []string{w.Lock(), w.dir} { // the lock tells that it is somebody's as long as it is there
		if rerr := os.Remove(p); !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
	}
	w.lock.Unlock()
	w.shelf.Unlock()
	return err
}

// Running tells whether a build runs whose lock this is. One that is not there is not
// made.
func Running(lock string) bool { return store.IsLocked(lock) }

// Busy tells whether any build runs.
func (s Shelf) Busy() bool {
	works, _ := filepath.Glob(filepath.Join(s.Dir, workPrefix+"*"))
	for _, w := range works {
		if Running(filepath.Join(w, lockName)) {
			return true
		}
	}
	return false
}

// newAge is the age from which a build that is being made counts as killed.
const newAge = time.Minute

// Sweep removes what builds left that were killed.
func (s Shelf) Sweep() {
	s.sweepWorks()
	if s.Busy() {
		return // what is half made may be somebody's
	}
	for _, dir := range []string{s.steps(), filepath.Join(s.Dir, cachesName)} {
		for _, prefix := range []string{newPrefix, gonePrefix} {
			left, _ := filepath.Glob(filepath.Join(dir, prefix+"*"))
			for _, p := range left {
				_ = store.RemoveTree(p)
			}
		}
		store.SweepTemp(dir, newAge)
	}
}

// sweepWorks removes builds that nobody has the lock of.
func (s Shelf) sweepWorks() {
	for _, prefix := range []string{workPrefix, newPrefix} {
		works, _ := filepath.Glob(filepath.Join(s.Dir, prefix+"*"))
		for _, w := range works {
			lock := filepath.Join(w, lockName)
			_, err := os.Lstat(lock)
			if (err != nil || prefix == newPrefix) && time.Since(Used(w)) < newAge {
				continue // it is being removed, or begins
			}
			if !Running(lock) {
				_ = store.RemoveTree(w)
			}
		}
	}
}
