package keeper

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// lend gives the gateway the secrets of the launch, before the wall exists. If the gateway refuses
// them it has none: the sandbox starts anyway, and the caller that started it is told why.
func (k *Keeper) lend() {
	k.unlent = k.launch.Unlent
	if err := k.setLoans(k.launch.Loans); err != nil {
		k.refused = err.Error()
		for _, l := range k.launch.Loans {
			if len(l.Value) > 0 {
				k.unlent = append(k.unlent, spec.Unlent{Lease: l.ID, Secret: l.Secret, Reason: err.Error(), Hint: spec.Hint(err)})
			}
		}
	}
	k.launch.Loans, k.launch.Unlent = nil, nil
}

// notLent returns the leases without effect.
func (k *Keeper) notLent() []spec.Unlent {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.unlent)
}

// setLoans puts secrets into force. If the gateway refuses them, the previous ones stay in force:
// at no moment may values go unmasked.
func (k *Keeper) setLoans(loans []wire.Loan) error {
	if len(loans) == 0 && len(k.loans) == 0 {
		return nil
	}
	err := k.gateway.SetLoans(loans)
	if err != nil {
		k.log.Warn("lend secrets", "err", err)
		return err
	}
	k.loans = loans
	return nil
}

// noteUnlent writes the leases without effect into the status.
func (k *Keeper) noteUnlent() {
	list := k.notLent()
	k.status.Update(func(st *spec.Status) { st.Unlent = list })
}

// answerLoans changes the lent secrets for a caller.
func (k *Keeper) answerLoans(c *unixconn.Conn, change wire.LoanChange) error {
	before := len(k.notLent())
	err := k.changeLoans(change)
	if len(k.notLent()) != before {
		k.noteUnlent()
	}
	if err != nil {
		return err
	}
	return c.SendJSON(wire.Reply, struct{}{})
}

// changeLoans takes back loans that are not to be kept, even if the gateway refuses the new ones.
// If the gateway refuses that too, the keeper lends nothing any more.
func (k *Keeper) changeLoans(change wire.LoanChange) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var old, put, former []wire.Loan
	for _, l := range change.Put {
		if slices.Contains(change.Keep, l.ID) {
			put = append(put, l)
		}
	}
	for _, l := range k.loans {
		if i := slices.IndexFunc(put, func(n wire.Loan) bool { return n.ID == l.ID }); i >= 0 {
			put[i].Masked = maskFormer(put[i], l)
			l.Taken = true
			former = append(former, l)
			continue
		}
		if !slices.Contains(change.Keep, l.ID) {
			l.Taken = true
		}
		old = append(old, l)
	}
	k.unlent = slices.DeleteFunc(k.unlent, func(u spec.Unlent) bool { return !slices.Contains(change.Keep, u.Lease) })
	old = latest(old)
	err := k.setLoans(slices.Concat(old, put))
	if err == nil {
		k.unlent = slices.DeleteFunc(k.unlent, func(u spec.Unlent) bool {
			return slices.ContainsFunc(put, func(n wire.Loan) bool { return n.ID == u.Lease })
		})
		return nil
	}
	if len(put) > 0 {
		left := k.setLoans(slices.Concat(old, former))
		if left == nil {
			return err
		}
		err = errors.Join(err, left)
	}
	return errors.Join(err, k.setLoans(nil))
}

// maxMasked bounds the values of one loan that are masked and not lent.
const maxMasked = 16

// maskFormer returns the values to mask for a loan that replaces a former one. They include values
// that were lent before: a server may still return them.
func maskFormer(l, former wire.Loan) []wire.Value {
	masked := slices.Clone(l.Masked)
	for _, v := range slices.Concat([]wire.Value{former.Value}, former.Masked) {
		same := func(w wire.Value) bool { return bytes.Equal(v, w) }
		if len(v) > 0 && !same(l.Value) && !slices.ContainsFunc(masked, same) && len(masked) < maxMasked {
			masked = append(masked, v)
		}
	}
	return masked
}

// maxTaken bounds the loans that were taken back. The gateway uses them to tell an ended
// placeholder from other text, and to mask a value that a server still remembers.
const maxTaken = 64

// latest keeps the last maxTaken of the loans that were taken back.
func latest(loans []wire.Loan) []wire.Loan {
	taken := 0
	for _, l := range loans {
		if l.Taken {
			taken++
		}
	}
	return slices.DeleteFunc(loans, func(l wire.Loan) bool {
		if !l.Taken || taken <= maxTaken {
			return false
		}
		taken--
		return true
	})
}

// lent returns the leases that are in force.
func (k *Keeper) lent(now time.Time) (leases []spec.Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range k.loans {
		if l.Live(now) && !l.Taken && len(l.Value) > 0 {
			leases = append(leases, l.Lease)
		}
	}
	return leases
}

// agentSocket is the socket inside of the lent SSH agent.
type agentSocket struct {
	at netip.AddrPort // of the gateway

	mu    sync.Mutex
	open  bool
	tried time.Time // the last failed try
}

// agentPause is how long the keeper waits to ask init again for a socket that it failed to make:
// a root process inside can stop init, and each program would wait.
const agentPause = 30 * time.Second

// openAgent makes init open the socket before a program is told of it. If init cannot make it, only
// programs that need the agent fail.
func (k *Keeper) openAgent(ctx context.Context, lent []spec.Lease) {
	if !slices.ContainsFunc(lent, func(l spec.Lease) bool { return l.Place.IsAgent() }) {
		return
	}
	k.agent.mu.Lock()
	defer k.agent.mu.Unlock()
	if k.agent.open || time.Since(k.agent.tried) < agentPause {
		return
	}
	_, err := k.link.Ask(ctx, wire.InitAsk{Ask: wire.AskListen, Listen: wire.Listen{Path: wire.AgentSocket, To: k.agent.at}})
	if err != nil {
		k.log.Warn("have a socket for the SSH agent", "err", err)
		k.agent.tried = time.Now()
		return
	}
	k.agent.open = true
}
