package engine

import (
	"context"

	"github.com/bothy-dev/bothy/internal/away"
	"github.com/bothy-dev/bothy/internal/credential"
	"github.com/bothy-dev/bothy/internal/keeperclient"
	"github.com/bothy-dev/bothy/internal/policy/policyfile"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// Credentials returns the broker that lends secrets to the sandboxes of this engine.
func (e *Engine) Credentials() *credential.Broker {
	return credential.NewBroker(&credential.Values{
		Store: e.Store, Agents: e.Agents, Passphrase: e.Passphrase, OwnProcess: e.OwnProcess, Say: e.Say,
	}, brokered{e})
}

// brokered is the engine as the broker sees it.
type brokered struct{ *Engine }

// EditPolicy implements [credential.Sandboxes].
func (e brokered) EditPolicy(ctx context.Context, sb *spec.Sandbox, edit func(*policyfile.File) error) error {
	return e.Rules().Edit(ctx, sb, edit)
}

// TellLoans gives a keeper less time for a change that only revokes: the keeper also finds that by
// itself.
func (e brokered) TellLoans(ctx context.Context, sb *spec.Sandbox, change wire.LoanChange) error {
	limit := keeperclient.TellTime
	if len(change.Put) > 0 {
		limit = keeperclient.AnswerTime
	}
	return e.Keepers().TellOnce(ctx, sb, func(ctx context.Context, c *unixconn.Conn) error {
		return keeperclient.OrderSoon(ctx, sb, c, limit, wire.Ask{Op: wire.OpLoans, Loans: change})
	}, func() error { return nil })
}

// RevokeAway changes the records of the sandboxes that are put away.
func (e brokered) RevokeAway(which func(*spec.Lease) bool, revoked func(*spec.Sandbox, []spec.Lease)) error {
	return e.Away().Each(func(r *away.Record) error {
		ended, left := vault.Part(r.Leases, which)
		if len(ended) == 0 {
			return nil
		}
		r.Leases = left
		if err := e.Away().Update(r); err != nil {
			return err
		}
		revoked(r.Sandbox, ended)
		return nil
	})
}
