// Package away keeps the records of sandboxes that are put away, from which they can be made anew.
package away

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Record holds the data from which a sandbox that is put away is made anew: its description, its
// documents, and its leases without values. It holds no work that was done in the sandbox.
type Record struct {
	Version   int               `json:"version"`
	Sandbox   *spec.Sandbox     `json:"sandbox"`
	Documents map[string][]byte `json:"documents"` // by their names
	Leases    []spec.Lease      `json:"leases"`
}

const recordSuffix = ".json"

// Records are the records in one state directory.
type Records struct{ Store *store.Store }

func (r Records) recordPath(id string) string {
	return filepath.Join(r.Store.Away(), id+recordSuffix)
}

// recordedPaths returns the paths of the documents that a record keeps: the sandbox's rules and its usage.
func recordedPaths(d store.Sandbox) []string {
	return []string{d.Policy(), d.Mock(), d.Uploads(), d.Bill(), d.Lent()}
}

// Documents reads the recorded documents, by their names.
func Documents(d store.Sandbox) (map[string][]byte, error) {
	list := map[string][]byte{}
	for _, path := range recordedPaths(d) {
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list[filepath.Base(path)] = append([]byte{}, data...) // not nil
	}
	return list, nil
}

// Read returns the record of a sandbox. A sandbox that is not put away is an error of class
// [spec.ErrNotFound].
func (r Records) Read(id string) (*Record, error) {
	rec := &Record{}
	err := store.ReadJSON(r.recordPath(id), rec)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, spec.Errorf(spec.ErrNotFound, "the sandbox %s is not put away", id)
	case err != nil:
		return nil, err
	case rec.Version < 1:
		return nil, spec.Errorf(spec.ErrConflict, "%s has no version", r.recordPath(id))
	case rec.Sandbox == nil || rec.Sandbox.ID != id:
		return nil, spec.Errorf(spec.ErrConflict, "%s is not the record of that sandbox", r.recordPath(id))
	}
	return rec, nil
}

// Has reports whether a sandbox is put away.
func (r Records) Has(id string) bool {
	_, err := os.Lstat(r.recordPath(id))
	return err == nil
}

// Forget deletes the record of a sandbox, so that it cannot be made anew. A missing record is not an
// error.
func (r Records) Forget(id string) error {
	err := os.Remove(r.recordPath(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = store.SyncDir(r.Store.Away())
	}
	return err
}

// Each calls do with every record.
func (r Records) Each(do func(*Record) error) error {
	list, err := os.ReadDir(r.Store.Away())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, entry := range list {
		id, ok := strings.CutSuffix(entry.Name(), recordSuffix)
		if !ok || strings.HasPrefix(id, ".") {
			continue
		}
		rec, err := r.Read(id)
		if errors.Is(err, spec.ErrNotFound) {
			continue // it was made anew meanwhile
		}
		if err == nil {
			err = do(rec)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Update replaces the record of a sandbox that is put away.
func (r Records) Update(rec *Record) error {
	return store.WriteJSON(r.recordPath(rec.Sandbox.ID), rec)
}

// Write writes the first record of a sandbox.
func (r Records) Write(rec *Record) error {
	if err := os.MkdirAll(r.Store.Away(), 0o700); err != nil {
		return err
	}
	return errors.Join(r.Update(rec), store.SyncDir(r.Store.Path()))
}

// Restore writes the recorded documents into the directory of a new sandbox.
func (rec *Record) Restore(d store.Sandbox) (err error) {
	for _, path := range recordedPaths(d) {
		if data, there := rec.Documents[filepath.Base(path)]; there && err == nil {
			err = store.WriteFile(path, data)
		}
	}
	return err
}
