package oauthfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Sweep removes files from the directory of a sandbox's logins that belong to no lease on a
// list. Those leases have ended, or a process was killed before it wrote the lease. The
// caller holds the lock for leases, or no login can be made there.
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

// Remove removes a login that was made inside, and the new file beside it.
func (f File) Remove() error {
	var errs []error
	for _, path := range []string{f.Path, f.written()} {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
