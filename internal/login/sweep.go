package login

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Sweep removes from the directory of a sandbox's logins what is of no lease on a list: what
// was ended, and what a process left that was killed before its lease was written. The
// caller holds the lock under which leases change, or nobody makes a login there.
func Sweep(dir store.Sandbox, leases []spec.Lease) error {
	entries, err := os.ReadDir(dir.Logins())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &spec.Error{Op: "look for tokens of logins that have ended", Err: err}
	}
	var keep []string
	for _, l := range leases {
		if l.Captured != "" {
			f := File{Path: dir.Login(l.ID)}
			keep = append(keep, f.Path, f.written())
		}
	}
	var errs []error
	for _, e := range entries {
		if path := filepath.Join(dir.Logins(), e.Name()); !slices.Contains(keep, path) {
			errs = append(errs, os.RemoveAll(path))
		}
	}
	return errors.Join(append(errs, store.SyncDir(dir.Logins()))...)
}

// Remove removes a login that was made inside, with what was written beside it.
func (f File) Remove() error {
	var errs []error
	for _, path := range []string{f.Path, f.written()} {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
