package credential

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// LendAgain lends one sandbox the secrets that another is lent. With same, the placeholders stay the
// same: the programs of a fork have them in memory. LendAgain tells the user which secrets it cannot
// lend.
func (b *Broker) LendAgain(ctx context.Context, from, to *spec.Sandbox, same bool) {
	b.LendSome(ctx, from, to, same, func(*spec.Lease) bool { return true })
}

// LendSome is LendAgain for the leases that wanted accepts.
func (b *Broker) LendSome(ctx context.Context, from, to *spec.Sandbox, same bool, wanted func(*spec.Lease) bool) {
	list, err := b.Leases(from)
	if err != nil {
		b.Values.tellUser("nothing is lent to %s: %v", to.Name, err)
		return
	}
	list = slices.DeleteFunc(list, func(l spec.Lease) bool { return !wanted(&l) })
	still := func(id string) bool {
		now, err := b.Leases(from)
		return err == nil && vault.IsLive(now, id, time.Now())
	}
	_ = b.LendLike(ctx, Loaned{Leases: list, Login: "stays with " + from.Name + " alone", Still: still}, to, same) // the user was told
}

// Loaned are leases of one sandbox, to lend another sandbox the same.
type Loaned struct {
	Leases []spec.Lease
	Login  string               // the fate of a login that was made inside, for the user
	Still  func(id string) bool // whether a lease has not been revoked meanwhile
}

// LendLike lends a sandbox the same as a list of leases that have not ended. It tells the user which
// ones it does not lend. The error is about secrets that may be available another time.
func (b *Broker) LendLike(ctx context.Context, like Loaned, to *spec.Sandbox, same bool) error {
	var errs []error
	for _, l := range vault.Live(like.Leases, time.Now()) {
		if isCaptured(l) {
			b.Values.tellUser("%s %s: log in inside %s", l.Secret, like.Login, to.Name)
			continue
		}
		fresh, err := b.Lend(ctx, to, l.Secret, termsLike(&l, same))
		if err == nil && !like.Still(l.ID) {
			_, err = b.Revoke(ctx, to, func(o *spec.Lease) bool { return o.ID == fresh.ID })
		}
		if err != nil {
			b.Values.tellUser("%s is not lent to %s: %v", l.Secret, to.Name, err)
			if !errors.Is(err, spec.ErrNotFound) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

func termsLike(l *spec.Lease, same bool) vault.Terms {
	t := vault.Terms{Hosts: l.Hosts, Methods: l.Methods, Paths: l.Paths, Place: &l.Place, Env: l.Env, Tool: l.Tool, Settings: l.Settings}
	if t.Env == nil {
		t.Env = []string{} // no variable, instead of the usual one
	}
	if same {
		t.Placeholder, t.Renewal = l.Placeholder, l.Renewal
	}
	if !l.Until.IsZero() {
		t.For = time.Until(l.Until)
	}
	return t
}
