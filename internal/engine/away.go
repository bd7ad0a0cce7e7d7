package engine

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/credential"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// record holds the data from which a sandbox that is put away is made anew: its description, its
// documents, and its leases without values. It holds no work that was done in the sandbox.
type record struct {
	Version   int               `json:"version"`
	Sandbox   *spec.Sandbox     `json:"sandbox"`
	Documents map[string][]byte `json:"documents"` // by their names
	Leases    []spec.Lease      `json:"leases"`
}

const recordSuffix = ".json"

func (e *Engine) recordPath(id string) string {
	return filepath.Join(e.Store.Away(), id+recordSuffix)
}

// recorded returns the paths of the documents that a record keeps: the sandbox's rules and its usage.
func recorded(d store.Sandbox) []string {
	return []string{d.Policy(), d.Mock(), d.Uploads(), d.Bill(), d.Lent()}
}

// PutAway writes the record from which a stopped sandbox can be made anew, and then removes the sandbox.
func (e *Engine) PutAway(ctx context.Context, sb *spec.Sandbox) error {
	if err := e.record(sb); err != nil {
		return &spec.Error{Op: "write down what it takes to make " + sb.Name + " anew", Err: err, Hint: spec.Hint(err)}
	}
	return e.Remove(ctx, sb, true)
}

// record writes the record of a sandbox. Leases that were revoked before are not in it. Later
// revocations change the record.
func (e *Engine) record(sb *spec.Sandbox) error {
	c, err := vault.Of(e.Store).BeginBlind()
	if err != nil {
		return err
	}
	defer c.End()
	d := e.Store.Sandbox(sb.ID)
	r := record{Version: spec.Version}
	if r.Sandbox, err = e.Store.Load(sb.ID); err != nil {
		return err
	}
	if r.Leases, err = e.Credentials().Leases(sb); err != nil {
		return err
	}
	if r.Documents, err = documents(d); err != nil {
		return err
	}
	if err := os.MkdirAll(e.Store.Away(), 0o700); err != nil {
		return err
	}
	return errors.Join(store.WriteJSON(e.recordPath(sb.ID), r), store.SyncDir(e.Store.Path()))
}

// documents reads the recorded documents, by their names.
func documents(d store.Sandbox) (map[string][]byte, error) {
	list := map[string][]byte{}
	for _, path := range recorded(d) {
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

func (e *Engine) readRecord(id string) (*record, error) {
	r := &record{}
	err := store.ReadJSON(e.recordPath(id), r)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, spec.Errorf(spec.ErrNotFound, "the sandbox %s is not put away", id)
	case err != nil:
		return nil, err
	case r.Version < 1:
		return nil, spec.Errorf(spec.ErrConflict, "%s has no version", e.recordPath(id))
	case r.Sandbox == nil || r.Sandbox.ID != id:
		return nil, spec.Errorf(spec.ErrConflict, "%s is not the record of that sandbox", e.recordPath(id))
	}
	return r, nil
}

// IsAway reports whether a sandbox is put away.
func (e *Engine) IsAway(id string) bool {
	_, err := os.Lstat(e.recordPath(id))
	return err == nil
}

// Forget deletes the record of a sandbox, so that it cannot be made anew. A missing record is not an
// error.
func (e *Engine) Forget(id string) error {
	err := os.Remove(e.recordPath(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = store.SyncDir(e.Store.Away())
	}
	return err
}

// Anew makes a sandbox that is put away, with its ID and name. It tells the user which credentials can
// no longer be lent. On any other error the sandbox stays put away. If an earlier call was killed, Anew
// makes the sandbox once more; the interrupted one may lack leases.
func (e *Engine) Anew(ctx context.Context, id string) (*spec.Sandbox, error) {
	r, err := e.readRecord(id)
	if err != nil {
		return nil, err
	}
	sb := *r.Sandbox
	fail := func(err error) (*spec.Sandbox, error) {
		return nil, &spec.Error{Op: "make " + sb.Name + " anew", Err: err, Hint: spec.Hint(err)}
	}
	if begun, err := e.Find(id); err == nil {
		if err := e.Remove(ctx, begun, true); err != nil {
			return fail(err)
		}
	}
	sb.CreatedAt = time.Now().UTC()
	write := func(d store.Sandbox) error {
		var err error
		for _, path := range recorded(d) {
			if data, there := r.Documents[filepath.Base(path)]; there && err == nil {
				err = store.WriteFile(path, data)
			}
		}
		return err
	}
	if err := e.Create(ctx, &sb, write, e.Making(&sb)); err != nil {
		return fail(err)
	}
	err = e.lendAnew(ctx, r.Leases, &sb)
	if err == nil {
		err = e.Forget(id)
	}
	if err == nil {
		err = e.Made(&sb)
	}
	if err != nil {
		rest := context.WithoutCancel(ctx)
		return fail(errors.Join(err, e.Remove(rest, &sb, true)))
	}
	return &sb, nil
}

// lendAnew lends a sandbox the credentials that it had when it was put away.
func (e *Engine) lendAnew(ctx context.Context, list []spec.Lease, sb *spec.Sandbox) error {
	still := func(id string) bool {
		r, err := e.readRecord(sb.ID)
		return err == nil && vault.IsLive(r.Leases, id, time.Now())
	}
	err := e.Credentials().LendLike(ctx, credential.Loaned{Leases: list, Login: "went with the sandbox", Still: still}, sb, false)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// eachAway calls do with every record.
func (e *Engine) eachAway(do func(r *record) error) error {
	list, err := os.ReadDir(e.Store.Away())
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
		r, err := e.readRecord(id)
		if errors.Is(err, spec.ErrNotFound) {
			continue // it was made anew meanwhile
		}
		if err == nil {
			err = do(r)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
