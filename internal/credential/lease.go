package credential

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// Leases returns the leases of a sandbox, including those that ran out. For a nil sandbox it returns
// those of all sandboxes, ordered by the names of the sandboxes.
func (b *Broker) Leases(sb *spec.Sandbox) ([]spec.Lease, error) {
	if sb != nil {
		return vault.ReadLeases(b.Values.Store.Sandbox(sb.ID).Leases())
	}
	list, err := b.Values.Store.List()
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b *spec.Sandbox) int { return cmp.Compare(a.Name, b.Name) })
	var all []spec.Lease
	for _, of := range list {
		l, err := vault.ReadLeases(b.Values.Store.Sandbox(of.ID).Leases())
		if err != nil {
			return nil, err
		}
		all = append(all, l...)
	}
	return all, nil
}

// Lend lends a secret to a sandbox. A running sandbox has it at once.
func (b *Broker) Lend(ctx context.Context, sb *spec.Sandbox, secret string, t vault.Terms) (*spec.Lease, error) {
	return b.lendUnless(ctx, sb, secret, t, nil)
}

// lendUnless is Lend that lends nothing, and returns no lease, if has is true of the sandbox's leases.
// It calls has before it reads the secret, and again under the lock of the vault. has may be nil.
func (b *Broker) lendUnless(ctx context.Context, sb *spec.Sandbox, secret string, t vault.Terms, has func([]spec.Lease) bool) (*spec.Lease, error) {
	d := b.Values.Store.Sandbox(sb.ID)
	list, err := vault.ReadLeases(d.Leases())
	if err != nil {
		return nil, err
	}
	if has != nil && has(list) {
		return nil, nil
	}
	c, s, v, err := b.readForLease(ctx, sb, secret, t, list)
	if err != nil {
		return nil, err
	}
	defer c.End()
	now := time.Now()
	l, err := vault.NewLease(s, sb.ID, completeUsual(s, t), v.value, now)
	if err != nil {
		return nil, err
	}
	if v.login != nil {
		v.login.addPlaceholders(s, &l)
	}
	if t.Placeholder != "" {
		l.Placeholder = t.Placeholder
	}
	if t.Renewal != "" && l.Renewal != "" {
		l.Renewal = t.Renewal
	}
	if list, err = vault.ReadLeases(d.Leases()); err != nil {
		return nil, err
	}
	if has != nil && has(list) {
		return nil, nil
	}
	if err := checkClash(vault.Live(list, now), &l); err != nil {
		return nil, err
	}
	if list, err = addLease(d, list, l, now); err != nil {
		return nil, err
	}
	b.Values.noteChange(c, noteLease, leaseFields(&l, sb))
	if v.login != nil && d.ReadStatus().StartedAt != nil {
		b.Values.tellUser("the login is in ~/%s of sandbox %s from its next start on", v.login.at.How.File, sb.Name)
	}
	return &l, b.announceLoans(ctx, sb, list, []wire.Loan{v.loan(l)})
}

// completeUsual adds the terms that a secret implies: a login is a file inside, and needs no variable.
func completeUsual(s *vault.Secret, t vault.Terms) vault.Terms {
	if s.Source.Kind == vault.SourceLogin && t.Env == nil {
		t.Env = []string{}
	}
	return t
}

// addLease adds a lease to those of a sandbox, and removes those that ran out. It writes the new
// lease before its mark, so that a process that is killed leaves no mark alone. It writes the mark
// of the removed leases before it removes them.
func addLease(d store.Sandbox, list []spec.Lease, l spec.Lease, now time.Time) ([]spec.Lease, error) {
	live := append(vault.Live(list, now), l)
	err := markLent(d, list)
	if err == nil {
		err = writeLeases(d.Leases(), live)
	}
	if err == nil {
		err = markLent(d, live)
	}
	return live, err
}

// markLent marks a sandbox as one that was lent a credential, if a list has a lease of one. The mark
// stays when the lease ends.
func markLent(d store.Sandbox, list []spec.Lease) error {
	if !slices.ContainsFunc(list, isCredential) {
		return nil
	}
	if _, err := os.Lstat(d.Lent()); err == nil {
		return nil
	}
	return store.WriteFile(d.Lent(), nil)
}

// isCredential reports whether a lease is of a credential, and not of a tool's token.
func isCredential(l spec.Lease) bool { return l.Tool == "" }

// hasLive returns a function for [Broker.lendUnless] that reports whether a secret is lent.
func hasLive(secret string) func([]spec.Lease) bool {
	return func(list []spec.Lease) bool {
		return slices.ContainsFunc(vault.Live(list, time.Now()), func(l spec.Lease) bool { return l.Secret == secret })
	}
}

// NeverLent reports whether a sandbox was never lent a credential. A lease that was revoked or has run
// out counts; tokens of tools do not.
func (b *Broker) NeverLent(sb *spec.Sandbox) bool {
	list, err := b.Leases(sb)
	return err == nil && neverLent(b.Values.Store.Sandbox(sb.ID), list)
}

func neverLent(d store.Sandbox, list []spec.Lease) bool {
	_, err := os.Lstat(d.Lent())
	return errors.Is(err, fs.ErrNotExist) && !slices.ContainsFunc(list, isCredential)
}

// readForLease reads the value of a secret, and takes the lock of the vault. A source may be slow, and
// leases must be revocable meanwhile. So it reads the value before it takes the lock, and once more if
// the secret was set in between. It reads no value that cannot be lent: the source may ask the user
// for a password.
func (b *Broker) readForLease(ctx context.Context, sb *spec.Sandbox, secret string, t vault.Terms, list []spec.Lease) (*vault.Change, *vault.Secret, secretValue, error) {
	for {
		d, err := b.Values.vault().Read()
		if err != nil {
			return nil, nil, secretValue{}, err
		}
		if s, err := d.Find(secret); err == nil {
			if err := checkLendable(sb, s, t, list); err != nil {
				return nil, nil, secretValue{}, err
			}
		}
		v := b.Values.readValues(ctx, d, []string{secret})[secret]
		if v.err != nil {
			return nil, nil, secretValue{}, v.err
		}
		c, err := b.Values.vault().Begin()
		if err != nil {
			return nil, nil, secretValue{}, err
		}
		s, err := c.Find(secret)
		if err != nil {
			c.End()
			return nil, nil, secretValue{}, err
		}
		if read, _ := d.Find(secret); read.Revision == s.Revision {
			return c, s, v, nil
		}
		c.End()
	}
}

// checkLendable refuses a lease that is invalid whatever the secret's value is.
func checkLendable(sb *spec.Sandbox, s *vault.Secret, t vault.Terms, list []spec.Lease) error {
	now := time.Now()
	l, err := vault.NewLease(s, sb.ID, completeUsual(s, t), nil, now)
	if err == nil {
		err = checkUnplayed(sb, s.Name, vault.HostsOf(s, t))
	}
	if err == nil {
		err = checkClash(vault.Live(list, now), &l)
	}
	return err
}

func checkClash(list []spec.Lease, l *spec.Lease) error {
	for _, o := range list {
		if l.Renewal != "" && o.Renewal != "" && o.Secret == l.Secret {
			return spec.Errorf(spec.ErrConflict, "the sandbox has the login %s already", o.Secret).
				WithHint("end that lease first: bothy secret revoke %s", o.ID)
		}
		for _, name := range l.Env {
			if slices.Contains(o.Env, name) {
				return spec.Errorf(spec.ErrConflict, "the sandbox has %s by a lease of %s already", name, o.Secret).
					WithHint("end that one first: bothy secret revoke %s, or name another variable: --env NAME", o.ID)
			}
		}
	}
	return nil
}

// writeLeases replaces a sandbox's leases. A start sweeps the sandbox's directory, and may remove our
// temporary file.
func writeLeases(path string, list []spec.Lease) error {
	var err error
	for range 3 {
		if err = vault.WriteLeases(path, list); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return err
}

func leaseFields(l *spec.Lease, sb *spec.Sandbox) map[string]any {
	f := map[string]any{"secret": l.Secret, "lease": l.ID, "sandbox": sb.Name, "sandbox_id": sb.ID, "hosts": l.Hosts, "place": l.Place.Kind}
	if !l.Until.IsZero() {
		f["until"] = l.Until
	}
	return f
}

// checkUnplayed refuses to lend a secret for hosts that a sandbox's mock plays: the secret would be read,
// and never used.
func checkUnplayed(sb *spec.Sandbox, secret string, hosts []string) error {
	if sb.Mock == nil {
		return nil
	}
	for _, host := range hosts {
		if name, _, _ := strings.Cut(host, ":"); slices.Contains(sb.Mock.Hosts, strings.ToLower(name)) {
			return spec.Errorf(spec.ErrConflict, "%s is not lent: the mock of sandbox %s answers in the place of %s", secret, sb.Name, name).
				WithHint("a sandbox without --mock asks the real one")
		}
	}
	return nil
}
