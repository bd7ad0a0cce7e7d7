// Package layer keeps the private layer of a sandbox's root on disk: the newest complete save. A save is
// a directory that is written next to the current one and renamed into its place. A crash at any point
// leaves one or the other, never a partial save.
package layer

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/sums"
)

// Store is the directory of one sandbox's saves.
type Store struct{ Dir string }

const (
	savePrefix = "root-"
	workPrefix = ".root-"
)

// Current returns the directory of the newest save, or "" if there is none.
func (s Store) Current() (string, error) {
	n, err := s.newest()
	if err != nil || n == 0 {
		return "", err
	}
	return s.pathOf(savePrefix, n), nil
}

// First returns the directory for the first save of a new sandbox; the caller makes it.
func (s Store) First() string { return s.pathOf(savePrefix, 1) }

// Add lets write fill an empty directory, adds the sums of its files and makes it the newest save. It
// returns the size on disk in bytes. The caller removes the previous save with tidy, so that a user need
// not wait for that.
func (s Store) Add(write func(dir string) error) (size int64, tidy func(), err error) {
	return s.addSave(func(dir string) error {
		if err := write(dir); err != nil {
			return err
		}
		return sums.Write(dir)
	})
}

// addSave is Add without sums, unless write makes them.
func (s Store) addSave(write func(dir string) error) (size int64, tidy func(), err error) {
	n, err := s.newest()
	if err != nil {
		return 0, nil, err
	}
	work := s.pathOf(workPrefix, n+1)
	if err := os.RemoveAll(work); err != nil {
		return 0, nil, err
	}
	if err := os.Mkdir(work, 0o700); err != nil {
		return 0, nil, err
	}
	size, err = s.fillWork(work, write)
	if err == nil {
		err = os.Rename(work, s.pathOf(savePrefix, n+1))
	}
	if err == nil {
		err = store.SyncDir(s.Dir)
	}
	if err != nil {
		os.RemoveAll(work)
		return 0, nil, err
	}
	return size, func() {
		if n > 0 {
			_ = os.RemoveAll(s.pathOf(savePrefix, n)) // tried again by Sweep
		}
	}, nil
}

// Adopt makes a save at another place the newest one; "" means no save, so the root is as it was made.
// The sandbox must not run.
func (s Store) Adopt(dir string) error {
	if dir != "" {
		// A save without sums gets none: they would vouch for contents that were never checked.
		_, tidy, err := s.addSave(func(work string) error { return linkInto(dir, work) })
		if err == nil {
			tidy()
		}
		return err
	}
	for {
		current, err := s.Current()
		if err != nil || current == "" {
			return err
		}
		gone := s.pathOf(workPrefix, 0) // a partial save does not count
		if err := errors.Join(os.RemoveAll(gone), os.Rename(current, gone), store.SyncDir(s.Dir), os.RemoveAll(gone)); err != nil {
			return err
		}
	}
}

// Link makes a directory with the files of a save, which never change once they are written. A
// missing save is fs.ErrNotExist; "" means no save.
func Link(from, to string) error {
	if from == "" {
		return nil
	}
	entries, err := os.ReadDir(from)
	if err == nil && len(entries) == 0 {
		err = &fs.PathError{Op: "read", Path: from, Err: fs.ErrNotExist}
	}
	if err != nil {
		return err
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	return linkInto(from, to)
}

func linkInto(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		old, fresh := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		err := os.Link(old, fresh)
		if errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EMLINK) {
			err = copyFile(old, fresh)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Same reports whether two saves have the same contents. "" means no save.
func Same(a, b string) (bool, error) {
	if a == "" || b == "" {
		return a == b, nil
	}
	names, err := namesOf(a)
	if err != nil {
		return false, err
	}
	others, err := namesOf(b)
	if err != nil || !slices.Equal(names, others) {
		return false, err
	}
	for _, name := range names {
		if same, err := sameFile(filepath.Join(a, name), filepath.Join(b, name)); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

func namesOf(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func sameFile(a, b string) (bool, error) {
	x, err := store.OpenRegular(a, os.O_RDONLY)
	if err != nil {
		return false, err
	}
	defer x.Close()
	y, err := store.OpenRegular(b, os.O_RDONLY)
	if err != nil {
		return false, err
	}
	defer y.Close()
	one, err := x.Stat()
	if err != nil {
		return false, err
	}
	other, err := y.Stat()
	if err != nil || one.Size() != other.Size() {
		return false, err
	}
	if os.SameFile(one, other) {
		return true, nil
	}
	return store.Same(x, y)
}

func copyFile(from, to string) error {
	in, err := store.OpenRegular(from, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err = io.Copy(out, in); err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

func (s Store) fillWork(dir string, write func(string) error) (int64, error) {
	if err := write(dir); err != nil {
		return 0, err
	}
	return store.SyncFiles(dir)
}

// filestorePrefix is the prefix of the file in which gVisor keeps the root's data. gVisor removes the
// name at once, unless it is killed.
const filestorePrefix = "runsc-filestore-"

// Sweep removes half-written and outdated saves, and leftovers of a killed start. No sandbox may
// be starting from the directory.
func (s Store) Sweep() error {
	n, err := s.newest()
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		old := strings.HasPrefix(e.Name(), savePrefix) && e.Name() != filepath.Base(s.pathOf(savePrefix, n))
		if old || strings.HasPrefix(e.Name(), workPrefix) || strings.HasPrefix(e.Name(), filestorePrefix) {
			errs = append(errs, os.RemoveAll(filepath.Join(s.Dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

func (s Store) newest() (int, error) {
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var all []int
	for _, e := range entries {
		if rest, ok := strings.CutPrefix(e.Name(), savePrefix); ok {
			if n, err := strconv.Atoi(rest); err == nil && n > 0 {
				all = append(all, n)
			}
		}
	}
	if len(all) == 0 {
		return 0, nil
	}
	return slices.Max(all), nil
}

func (s Store) pathOf(prefix string, n int) string {
	return filepath.Join(s.Dir, prefix+strconv.Itoa(n))
}
