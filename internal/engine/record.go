package engine

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Record is what it takes to make a sandbox anew when it is removed: what it was asked to be,
// its documents, and what it is lent, without values. Nothing is there of what was done in it.
type Record struct {
	Sandbox   *spec.Sandbox     `json:"sandbox"`
	Documents map[string][]byte `json:"documents"` // by their names
	Leases    []spec.Lease      `json:"leases"`
}

// recorded are the documents of a sandbox that tell what it may do, and what it did of that.
func recorded(d store.Sandbox) []string {
	return []string{d.Policy(), d.Mock(), d.Uploads(), d.Bill(), d.Lent()}
}

// Record is that of a sandbox that does not run.
func (e *Engine) Record(sb *spec.Sandbox) (r Record, err error) {
	d := e.Store.Sandbox(sb.ID)
	r.Documents = map[string][]byte{}
	r.Sandbox, err = e.Store.Load(sb.ID)
	if err == nil {
		r.Leases, err = e.Leases(sb)
	}
	for _, path := range recorded(d) {
		data, rerr := os.ReadFile(path)
		if rerr == nil {
			r.Documents[filepath.Base(path)] = append([]byte{}, data...) // not nil
		} else if err == nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = rerr
		}
	}
	if err != nil {
		return r, &spec.Error{Op: "write down what it takes to make " + sb.Name + " anew", Err: err}
	}
	return r, nil
}

// Anew makes a sandbox by its record, with its ID and name. What cannot be lent again is said.
func (e *Engine) Anew(ctx context.Context, r Record) (*spec.Sandbox, error) {
	if r.Sandbox == nil {
		return nil, spec.Errorf(nil, "the record of a sandbox is empty")
	}
	sb := *r.Sandbox
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
	if err := e.Create(ctx, &sb, write); err != nil {
		return nil, &spec.Error{Op: "make " + sb.Name + " anew", Err: err, Hint: spec.Hint(err)}
	}
	e.lendLike(ctx, r.Leases, sb.Name+" as it was", &sb, false, func(string) bool { return true })
	return &sb, nil
}
