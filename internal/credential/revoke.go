package credential

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// Revoke ends the chosen leases of a sandbox, or of all sandboxes if sb is nil, and returns them. A
// running sandbox loses them at once.
func (b *Broker) Revoke(ctx context.Context, sb *spec.Sandbox, which func(*spec.Lease) bool) ([]spec.Lease, error) {
	c, err := b.Values.vault().Begin()
	if err != nil {
		// The contents of the vault are not needed to end a lease.
		if c, err = b.Values.vault().BeginBlind(); err != nil {
			return nil, err
		}
	}
	defer c.End()
	return b.revokeLeases(ctx, c, sb, which)
}

// revokeLeases is Revoke for a caller that holds the lock of the vault.
func (b *Broker) revokeLeases(ctx context.Context, c *vault.Change, only *spec.Sandbox, which func(*spec.Lease) bool) ([]spec.Lease, error) {
	var gone []spec.Lease
	var mu sync.Mutex
	err := b.eachSandbox(func(sb *spec.Sandbox) error {
		if only != nil && sb.ID != only.ID {
			return nil
		}
		ended, err := b.revokeIn(ctx, sb, which)
		mu.Lock()
		defer mu.Unlock()
		b.noteRevoked(c, ended, sb)
		gone = append(gone, ended...)
		return err
	})
	if only == nil {
		err = errors.Join(err, b.sandboxes.RevokeAway(which, func(sb *spec.Sandbox, ended []spec.Lease) {
			b.noteRevoked(c, ended, sb)
			gone = append(gone, ended...)
		}))
	}
	return gone, err
}

func (b *Broker) noteRevoked(c *vault.Change, ended []spec.Lease, sb *spec.Sandbox) {
	for _, l := range ended {
		b.Values.noteChange(c, noteRevoke, map[string]any{"secret": l.Secret, "lease": l.ID, "sandbox": sb.Name, "sandbox_id": sb.ID})
	}
}

// revokeIn ends the chosen leases of one sandbox. It ends all leases if they cannot be read.
func (b *Broker) revokeIn(ctx context.Context, sb *spec.Sandbox, which func(*spec.Lease) bool) ([]spec.Lease, error) {
	d := b.Values.Store.Sandbox(sb.ID)
	path := d.Leases()
	list, unread := vault.ReadLeases(path)
	gone, left := vault.Part(list, which)
	// Last: once the keeper knows, its gateway removes the tokens that an active renewal puts back.
	defer func() { b.sweepLogins(sb, left) }()
	if len(gone) == 0 && unread == nil {
		return nil, nil
	}
	marked := markLent(d, gone)
	if unread == nil {
		if err := writeLeases(path, left); err != nil {
			left = list
			return nil, err
		}
	}
	return gone, errors.Join(unread, marked, b.announceLoans(ctx, sb, left, nil))
}

// announceLoans tells a running sandbox its leases, and the values that are new. The caller holds the
// lock of the vault, so that changes arrive in the order in which they were made.
func (b *Broker) announceLoans(ctx context.Context, sb *spec.Sandbox, list []spec.Lease, put []wire.Loan) error {
	change := wire.LoanChange{Put: put}
	for _, l := range list {
		change.Keep = append(change.Keep, l.ID)
	}
	return errUnanswered(sb, b.sandboxes.TellLoans(ctx, sb, change))
}

// errUnanswered returns the error for a change that is on the disk, and may not be in force.
func errUnanswered(sb *spec.Sandbox, err error) error {
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	hint := spec.Hint(err)
	if hint == "" {
		hint = fmt.Sprintf("a revoked lease ends as soon as the sandbox continues; a new one begins with its next start: bothy stop %s", sb.Name)
	}
	return &spec.Error{Op: "tell sandbox " + sb.Name + " its leases", Err: err, Hint: hint}
}
