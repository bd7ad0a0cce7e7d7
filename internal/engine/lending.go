package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// lending is what a sandbox that starts is lent, and the leases that are without
// effect.
type lending struct {
	loans  []wire.Loan
	files  []loginFile // logins, as they are inside
	unlent []spec.Unlent
}

// lending collects what a sandbox that starts is lent. What cannot be had goes
// without its value: the sandbox starts all the same, and who starts it hears
// why.
func (e *Engine) lending(ctx context.Context, sb *spec.Sandbox) lending {
	list, err := vault.ReadLeases(e.Store.Sandbox(sb.ID).Leases())
	if err != nil {
		return lending{unlent: []spec.Unlent{e.unlent(sb, spec.Lease{}, err)}}
	}
	e.forgetLogins(sb, list) // nobody is there who would make one
	now := time.Now()
	live := vault.Live(list, now)
	e.readyForLogin(ctx, sb, live)
	values, d := map[string]got{}, &vault.Document{}
	if len(live) > 0 {
		if d, err = e.vault().Read(); err != nil {
			return lending{unlent: e.allUnlent(sb, live, err)}
		}
		values = e.values(ctx, d, secretsOf(slices.DeleteFunc(slices.Clone(live), isCaptured)), e.loginKeys(sb, live)...)
	}
	if ctx.Err() != nil { // it does not start at all, and that is no fault of a secret
		return lending{}
	}
	var out lending
	for _, l := range list {
		v := values[l.Secret]
		if isCaptured(l) {
			v = e.readCaptured(ctx, d, sb, &l, v)
		} else if err := e.forOther(sb, d, &l); err != nil {
			v = got{err: err}
		}
		if err := l.Place.Check(); err != nil { // the gateway would have none of them
			if l.Live(now) {
				err = spec.Errorf(nil, "secret %s: %w", l.Secret, err).WithHint("bothy secret revoke %s, and lend it to another place", l.ID)
				out.unlent = append(out.unlent, e.unlent(sb, l, err))
			}
			continue
		}
		loan := wire.Loan{Lease: l}
		if l.Live(now) {
			loan = v.loan(l)
			if v.err == nil && v.login != nil && l.Renewal != "" && !isCaptured(l) {
				v.err = v.login.file(&out, &l)
			}
			if v.err != nil {
				out.unlent = append(out.unlent, e.unlent(sb, l, v.err))
			}
		}
		out.loans = append(out.loans, loan)
	}
	return out
}

func secretsOf(leases []spec.Lease) []string {
	var names []string
	for _, l := range leases {
		names = append(names, l.Secret)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// allUnlent is unlent for what concerns all leases.
func (e *Engine) allUnlent(sb *spec.Sandbox, leases []spec.Lease, err error) []spec.Unlent {
	first := e.unlent(sb, leases[0], err)
	var list []spec.Unlent
	for _, l := range leases {
		first.Lease, first.Secret = l.ID, l.Secret
		list = append(list, first)
	}
	return list
}

// unlent says that a sandbox starts without a lease, and what to do. What is
// written down of it has nothing of what a secret's command said: that may be
// anything.
func (e *Engine) unlent(sb *spec.Sandbox, l spec.Lease, err error) spec.Unlent {
	hint := fmt.Sprintf("when that is mended, bothy stop %s: the next start lends it", sb.Name)
	if h := spec.Hint(err); h != "" {
		hint = h + "; " + hint
	}
	e.say("sandbox %s starts without what it is lent: %s; %s", sb.Name, err, hint)
	text := err.Error()
	if c, ok := errors.AsType[*commandError](err); ok {
		text = strings.TrimSuffix(text, c.said())
	}
	return spec.Unlent{Lease: l.ID, Secret: l.Secret, Reason: text, Hint: hint}
}
