package grants

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// LendFirst gives the gateway the secrets of the launch, before the wall exists. If the gateway refuses
// them it has none: the sandbox starts anyway, and the caller that started it is told why.
func (g *Grants) LendFirst() (refused string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unlent = g.Launch.Unlent
	if err := g.setLoans(g.Launch.Loans); err != nil {
		refused = err.Error()
		for _, l := range g.Launch.Loans {
			if len(l.Value) > 0 {
				g.unlent = append(g.unlent, spec.Unlent{Lease: l.ID, Secret: l.Secret, Reason: err.Error(), Hint: spec.Hint(err)})
			}
		}
	}
	g.Launch.Loans, g.Launch.Unlent = nil, nil
	return refused
}

// NotLent returns the leases without effect.
func (g *Grants) NotLent() []spec.Unlent {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.unlent)
}

// setLoans puts secrets into force. If the gateway refuses them, the previous ones stay in force:
// at no moment may values go unmasked. The caller holds the lock.
func (g *Grants) setLoans(loans []wire.Loan) error {
	if len(loans) == 0 && len(g.loans) == 0 {
		return nil
	}
	err := g.gateway.SetLoans(loans)
	if err != nil {
		g.Log.Warn("lend secrets", "err", err)
		return err
	}
	g.loans = loans
	return nil
}

// ChangeLoans takes back loans that are not to be kept, even if the gateway refuses the new ones.
// If the gateway refuses that too, the keeper lends nothing any more.
func (g *Grants) ChangeLoans(change wire.LoanChange) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	var old, put, former []wire.Loan
	for _, l := range change.Put {
		if slices.Contains(change.Keep, l.ID) {
			put = append(put, l)
		}
	}
	for _, l := range g.loans {
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
	g.unlent = slices.DeleteFunc(g.unlent, func(u spec.Unlent) bool { return !slices.Contains(change.Keep, u.Lease) })
	old = dropOldTaken(old)
	err := g.setLoans(slices.Concat(old, put))
	if err == nil {
		g.unlent = slices.DeleteFunc(g.unlent, func(u spec.Unlent) bool {
			return slices.ContainsFunc(put, func(n wire.Loan) bool { return n.ID == u.Lease })
		})
		return nil
	}
	if len(put) > 0 {
		left := g.setLoans(slices.Concat(old, former))
		if left == nil {
			return err
		}
		err = errors.Join(err, left)
	}
	return errors.Join(err, g.setLoans(nil))
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

// dropOldTaken keeps the last maxTaken of the loans that were taken back.
func dropOldTaken(loans []wire.Loan) []wire.Loan {
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

// Lent returns the leases that are in force.
func (g *Grants) Lent(now time.Time) (leases []spec.Lease) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, l := range g.loans {
		if l.Live(now) && !l.Taken && len(l.Value) > 0 {
			leases = append(leases, l.Lease)
		}
	}
	return leases
}
