package credential

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

// Lent holds the loans of a sandbox that starts.
type Lent struct {
	Loans  []wire.Loan
	Unlent []spec.Unlent // leases that have no effect, with the reasons
	files  []loginFile   // logins, as programs inside see them
}

// ForStart reads the loans of a sandbox that starts. A value that cannot be read does not prevent the
// start: the loan goes without it, and the user is told why. When ctx ends, ForStart returns nothing,
// and no command of a secret runs any more.
func (b *Broker) ForStart(ctx context.Context, sb *spec.Sandbox) Lent {
	list, err := vault.ReadLeases(b.Values.Store.Sandbox(sb.ID).Leases())
	if err != nil {
		return Lent{Unlent: []spec.Unlent{b.reportUnlent(sb, spec.Lease{}, err)}}
	}
	b.sweepLogins(sb, list) // the sandbox does not run, so no login is being made
	now := time.Now()
	live := vault.Live(list, now)
	b.readyForLogin(ctx, sb, live)
	values, d := map[string]secretValue{}, &vault.Document{}
	if len(live) > 0 {
		if d, err = b.Values.vault().Read(); err != nil {
			return Lent{Unlent: b.reportAllUnlent(sb, live, err)}
		}
		values = b.Values.readValues(ctx, d, secretsOf(slices.DeleteFunc(slices.Clone(live), isCaptured)), b.capturedKeys(sb, live)...)
	}
	if ctx.Err() != nil { // the start was cancelled; no secret is at fault
		return Lent{}
	}
	var out Lent
	for _, l := range list {
		v := values[l.Secret]
		if isCaptured(l) {
			v = b.readCaptured(ctx, d, sb, &l, v)
		} else if err := b.Values.refuseOther(sb, d, &l); err != nil {
			v = secretValue{err: err}
		}
		b.addLoan(&out, sb, l, v, now)
	}
	return out
}

// addLoan adds a lease with its value. A lease that has run out goes without: the gateway still knows
// its placeholder. The gateway would refuse all loans for one with an invalid place, so that one is left
// out.
func (b *Broker) addLoan(to *Lent, sb *spec.Sandbox, l spec.Lease, v secretValue, now time.Time) {
	live := l.Live(now)
	if err := l.Place.Check(); err != nil {
		if live {
			err = spec.Errorf(nil, "secret %s: %w", l.Secret, err).WithHint("bothy secret revoke %s, and lend it to another place", l.ID)
			to.Unlent = append(to.Unlent, b.reportUnlent(sb, l, err))
		}
		return
	}
	loan := wire.Loan{Lease: l}
	if live {
		loan = v.loan(l)
		if v.err == nil && v.login != nil && l.Renewal != "" && !isCaptured(l) {
			v.err = v.login.addFile(to, &l)
		}
		if v.err != nil {
			to.Unlent = append(to.Unlent, b.reportUnlent(sb, l, v.err))
		}
	}
	to.Loans = append(to.Loans, loan)
}

// secretsOf returns the secrets of leases, each once.
func secretsOf(leases []spec.Lease) []string {
	var names []string
	for _, l := range leases {
		names = append(names, l.Secret)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// reportAllUnlent is reportUnlent for an error that concerns all leases.
func (b *Broker) reportAllUnlent(sb *spec.Sandbox, leases []spec.Lease, err error) []spec.Unlent {
	first := b.reportUnlent(sb, leases[0], err)
	var list []spec.Unlent
	for _, l := range leases {
		first.Lease, first.Secret = l.ID, l.Secret
		list = append(list, first)
	}
	return list
}

// reportUnlent tells the user that a sandbox starts without a lease, and what to do. The returned record
// leaves out the output of a secret's command, which may be any text.
func (b *Broker) reportUnlent(sb *spec.Sandbox, l spec.Lease, err error) spec.Unlent {
	hint := fmt.Sprintf("repair that, then run bothy stop %s: the next start lends it", sb.Name)
	if h := spec.Hint(err); h != "" {
		hint = h + "; " + hint
	}
	b.Values.tellUser("sandbox %s starts without a secret that it is lent: %s; %s", sb.Name, err, hint)
	text := err.Error()
	if c, ok := errors.AsType[*commandError](err); ok {
		text = strings.TrimSuffix(text, c.lastWords())
	}
	return spec.Unlent{Lease: l.ID, Secret: l.Secret, Reason: text, Hint: hint}
}
