package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/sums"
	"github.com/bothy-dev/bothy/spec"
)

// Hold keeps all images and running downloads from being removed, until the lock is
// released. Two gaps need it: between finding an image and recording that a sandbox uses
// it, and while new blobs do not belong to an image yet. Several callers may hold it at
// once.
func (s Shelf) Hold() (*store.Lock, error) {
	if err := s.Make(); err != nil {
		return nil, err
	}
	return store.ShareLock(s.heldPath())
}

func (s Shelf) heldPath() string { return filepath.Join(s.Dir, heldName) }

// ErrHeld reports that nothing can be removed now, because a process holds the images. It
// comes as an error of class [spec.ErrConflict].
var ErrHeld = errors.New("an image is being fetched or sent, or a sandbox is being created that may be about to use one")

// isRecent reports whether an image without a name is recent. Its loader can then still use it by its
// digest.
func (s Shelf) isRecent(digest string) bool {
	r, err := s.Root(digest)
	return err == nil && time.Since(r.Built) < grace
}

const grace = 10 * time.Minute

// partAge is how long an incomplete download is kept for a later pull to resume.
const partAge = 7 * 24 * time.Hour

// spoolAge is the age after which the name of a spooled file counts as left by a killed process.
const spoolAge = time.Minute

// Forget takes a name from an image. An image without a name stays as long as a sandbox
// uses it. The caller holds the lock.
func (s Shelf) Forget(img Image) error {
	i, err := s.readIndex()
	if err != nil {
		return err
	}
	for at := range i.Manifests {
		if m := &i.Manifests[at]; m.Digest == img.Digest && m.Annotations[NameKey] == img.Name {
			i.Manifests = slices.Delete(i.Manifests, at, at+1)
			return store.WriteJSON(filepath.Join(s.Dir, indexName), i)
		}
	}
	return nil
}

// Sweep removes images, roots and blobs that no name and no digest in use refers to, and files left by
// killed processes. While another process holds the images, it returns [ErrHeld]. The caller holds the
// lock.
func (s Shelf) Sweep(used map[string]bool) (freed int64, err error) {
	err = s.whileUnheld(func() (err error) {
		freed, err = s.sweepUnused(used)
		return err
	})
	return freed, err
}

func (s Shelf) sweepUnused(used map[string]bool) (freed int64, err error) {
	i, err := s.readIndex()
	if err != nil {
		return 0, err
	}
	named := i.Manifests[:0:0]
	for _, m := range i.Manifests {
		if m.Annotations[NameKey] != "" || used[m.Digest] || s.isRecent(m.Digest) {
			named = append(named, m)
		}
	}
	kept, err := s.markAll(named, used)
	if err != nil {
		return 0, err
	}
	if len(named) != len(i.Manifests) {
		i.Manifests = named
		if err := store.WriteJSON(filepath.Join(s.Dir, indexName), i); err != nil {
			return 0, err
		}
	}
	roots, err := s.sweepDir(s.rootsDir(), kept.hasRoot)
	if err != nil {
		return roots, err
	}
	blobs, err := s.sweepDir(s.blobsDir(), func(name string) bool {
		if hex, ok := strings.CutPrefix(name, partPrefix); ok {
			return s.isResumable(hex)
		}
		return kept.hasBlob(name)
	})
	store.SweepTemp(s.Dir, spoolAge)
	return roots + blobs, err
}

// whileUnheld calls do while no process holds the images, or returns [ErrHeld].
func (s Shelf) whileUnheld(do func() error) error {
	hold, err := store.TryLock(s.heldPath())
	if errors.Is(err, store.ErrLocked) {
		return spec.Errorf(spec.ErrConflict, "%w", ErrHeld).WithHint("try again when that is done")
	}
	if err != nil {
		return err
	}
	defer hold.Unlock()
	return do()
}

// Strays returns the paths of the blobs and roots that belong to no image of the list and
// to none of the digests in use. Killed processes leave them, or a running one is making
// them. Incomplete downloads are not included: see [Shelf.Parts].
func (s Shelf) Strays(used map[string]bool) ([]string, error) {
	i, err := s.readIndex()
	if err != nil {
		return nil, err
	}
	kept, err := s.markAll(i.Manifests, used)
	if err != nil {
		return nil, err
	}
	roots, err := without(s.rootsDir(), kept.hasRoot)
	if err != nil {
		return nil, err
	}
	blobs, err := without(s.blobsDir(), func(name string) bool { return strings.HasPrefix(name, partPrefix) || kept.hasBlob(name) })
	return append(roots, blobs...), err
}

// without returns the paths of the entries in a directory that keep rejects.
func without(dir string, keep func(name string) bool) (list []string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	for _, e := range entries {
		if !keep(e.Name()) {
			list = append(list, filepath.Join(dir, e.Name()))
		}
	}
	return list, err
}

// RemoveStray removes a path that Strays returned, unless an image uses it by now. While another process
// holds the images, it returns [ErrHeld]. The caller holds the lock, so that no image is being made.
func (s Shelf) RemoveStray(path string, used map[string]bool) error {
	return s.whileUnheld(func() error {
		list, err := s.Strays(used)
		if err != nil {
			return err
		}
		if _, err := os.Lstat(path); err == nil && !slices.Contains(list, path) {
			return spec.Errorf(spec.ErrConflict, "an image has it by now")
		}
		_, err = s.sweepDir(filepath.Dir(path), func(name string) bool { return name != filepath.Base(path) })
		return err
	})
}

func (s Shelf) isResumable(hex string) bool {
	info, err := os.Lstat(s.Part(algorithm + hex))
	if err != nil || info.Size() == 0 || time.Since(info.ModTime()) > partAge {
		return false
	}
	_, err = os.Lstat(s.Blob(algorithm + hex))
	return errors.Is(err, fs.ErrNotExist)
}

// Parts returns the paths of incomplete downloads.
func (s Shelf) Parts() ([]string, error) {
	return filepath.Glob(filepath.Join(s.blobsDir(), partPrefix+"*"))
}

// SweepParts removes incomplete downloads. While another process may be working on them, it
// returns [ErrHeld]. The caller holds the lock.
func (s Shelf) SweepParts() (freed int64, err error) {
	err = s.whileUnheld(func() (err error) {
		freed, err = s.sweepDir(s.blobsDir(), func(name string) bool { return !strings.HasPrefix(name, partPrefix) })
		return err
	})
	return freed, err
}

// RemovePart is SweepParts for one download, by its path.
func (s Shelf) RemovePart(path string) error {
	return s.whileUnheld(func() error { return os.RemoveAll(path) })
}

// Busy returns the reason why unfinished files must not be removed now, or nil.
func (s Shelf) Busy() error {
	return s.whileUnheld(func() error { return nil })
}

// leads holds the digests that images and digests in use depend on.
type leads map[string]bool

func (l leads) hasBlob(name string) bool { return l[algorithm+name] }

// hasRoot reports whether a directory is the root of one of them, for any caller's ids.
func (l leads) hasRoot(name string) bool {
	hex, _, _ := strings.Cut(name, "-")
	return l[algorithm+hex]
}

// markAll collects the digests that images, and digests in use, depend on.
func (s Shelf) markAll(list []Descriptor, used map[string]bool) (leads, error) {
	kept := leads{}
	for _, m := range list {
		if err := s.markBlobs(m.Digest, kept); err != nil {
			return nil, err
		}
	}
	for digest := range used {
		if err := s.markBlobs(digest, kept); err != nil {
			return nil, err
		}
	}
	return kept, nil
}

// markBlobs notes the blobs that a manifest refers to. If the manifest is missing, only its own
// digest is noted.
func (s Shelf) markBlobs(digest string, kept map[string]bool) error {
	kept[digest] = true
	m := Manifest{}
	if err := store.ReadJSON(s.Blob(digest), &m); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("nothing is removed, as a manifest cannot be read: %w", err)
	}
	kept[m.Config.Digest] = true
	for _, l := range m.Layers {
		kept[l.Digest] = true
	}
	return nil
}

// Paths returns the files and directories of an image: its root, and its blobs, which other images may
// share.
func (s Shelf) Paths(digest string) []string {
	list := []string{s.RootDir(digest)}
	blobs := map[string]bool{}
	if s.markBlobs(digest, blobs) != nil {
		return list
	}
	for d := range blobs {
		if CheckDigest(d) == nil {
			list = append(list, s.Blob(d))
		}
	}
	return list
}

// sweepDir removes the entries of a directory that keep rejects. It renames each one first, so
// that no partial entry is visible under the old name.
func (s Shelf) sweepDir(dir string, keep func(name string) bool) (freed int64, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	for _, e := range entries {
		if keep(e.Name()) {
			continue
		}
		at := filepath.Join(dir, e.Name())
		if size, err := store.TreeSize(at); err == nil {
			freed += size
		}
		gone := filepath.Join(dir, gonePrefix+strings.TrimPrefix(e.Name(), gonePrefix))
		if gone != at { // else a killed process renamed it
			if err := store.RemoveTree(gone); err != nil { // an older one with the same name
				return freed, err
			}
			if err := os.Rename(at, gone); err != nil {
				return freed, err
			}
		}
		if err := store.RemoveTree(gone); err != nil {
			return freed, err
		}
	}
	return freed, err
}

// NewBlob creates a file for a new blob. The caller holds all images.
func (s Shelf) NewBlob() (*os.File, error) {
	return os.CreateTemp(s.blobsDir(), newPrefix)
}

// NewRoot creates a directory for a new root. The caller holds the lock.
func (s Shelf) NewRoot() (string, error) {
	return os.MkdirTemp(s.rootsDir(), newPrefix)
}

// PutRoot completes a root and moves it to its place.
func (s Shelf) PutRoot(dir string, r Root) (Root, error) {
	if err := sums.Write(dir); err != nil {
		return r, err
	}
	if err := store.WriteJSON(filepath.Join(dir, aboutName), r); err != nil {
		return r, err
	}
	r.Dir = s.RootDir(r.Digest)
	if err := store.RemoveTree(r.Dir); err != nil { // one of another version
		return r, err
	}
	if err := os.Rename(dir, r.Dir); err != nil {
		return r, err
	}
	return r, store.SyncDir(filepath.Dir(r.Dir))
}
