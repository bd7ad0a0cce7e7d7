package engine

import (
	"context"
	"errors"
	"time"

	"github.com/bothy-dev/bothy/internal/away"
	"github.com/bothy-dev/bothy/internal/credential"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// Away returns the records of the sandboxes that are put away.
func (e *Engine) Away() away.Records { return away.Records{Store: e.Store} }

// PutAway writes the record from which a stopped sandbox can be made anew, and then removes the sandbox.
func (e *Engine) PutAway(ctx context.Context, sb *spec.Sandbox) error {
	if err := e.writeAway(sb); err != nil {
		return &spec.Error{Op: "record how to make " + sb.Name + " anew", Err: err, Hint: spec.Hint(err)}
	}
	return e.Remove(ctx, sb, true)
}

// writeAway writes the record of a sandbox. Leases that were revoked before are not in it. Later
// revocations change the record.
func (e *Engine) writeAway(sb *spec.Sandbox) error {
	c, err := vault.Of(e.Store).BeginBlind()
	if err != nil {
		return err
	}
	defer c.End()
	r := away.Record{Version: spec.Version}
	if r.Sandbox, err = e.Store.Load(sb.ID); err != nil {
		return err
	}
	if r.Leases, err = e.Credentials().Leases(sb); err != nil {
		return err
	}
	if r.Documents, err = away.Documents(e.Store.Sandbox(sb.ID)); err != nil {
		return err
	}
	return e.Away().Write(&r)
}

// Anew makes a sandbox that is put away, with its ID and name. It tells the user which credentials can
// no longer be lent. On any other error the sandbox stays put away. If an earlier call was killed, Anew
// makes the sandbox once more; the interrupted one may lack leases.
func (e *Engine) Anew(ctx context.Context, id string) (*spec.Sandbox, error) {
	r, err := e.Away().Read(id)
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
	if err := e.Create(ctx, &sb, r.Restore, e.MarkUnfinished(&sb)); err != nil {
		return fail(err)
	}
	err = lendAnew(ctx, e, r.Leases, &sb)
	if err == nil {
		err = e.Away().Forget(id)
	}
	if err == nil {
		err = e.MarkFinished(&sb)
	}
	if err != nil {
		rest := context.WithoutCancel(ctx)
		return fail(errors.Join(err, e.Remove(rest, &sb, true)))
	}
	return &sb, nil
}

// lendAnew lends a sandbox the credentials that it had when it was put away.
func lendAnew(ctx context.Context, e *Engine, list []spec.Lease, sb *spec.Sandbox) error {
	still := func(id string) bool {
		r, err := e.Away().Read(sb.ID)
		return err == nil && vault.IsLive(r.Leases, id, time.Now())
	}
	err := e.Credentials().LendLike(ctx, credential.Loaned{Leases: list, Login: "went with the sandbox", Still: still}, sb, false)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
