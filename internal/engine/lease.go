package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// Leases gives the leases of a sandbox or, without one, of all, those that ran
// out too.
func (e *Engine) Leases(sb *spec.Sandbox) ([]spec.Lease, error) {
	if sb != nil {
		return vault.ReadLeases(e.Store.Sandbox(sb.ID).Leases())
	}
	list, err := e.List()
	if err != nil {
		return nil, err
	}
	var all []spec.Lease
	for _, i := range list {
		l, err := vault.ReadLeases(e.Store.Sandbox(i.Spec.ID).Leases())
		if err != nil {
			return nil, err
		}
		all = append(all, l...)
	}
	return all, nil
}

// Lend lends a secret to a sandbox. One that runs has it at once.
func (e *Engine) Lend(ctx context.Context, sb *spec.Sandbox, secret string, t vault.Terms) (*spec.Lease, error) {
	return e.lend(ctx, sb, secret, t, nil)
}

// lend is Lend for who lends nothing, and gets no lease, if a sandbox has what was to be lent.
// It is asked, unless it is nil, before the secret is read, and again when nobody else lends.
func (e *Engine) lend(ctx context.Context, sb *spec.Sandbox, secret string, t vault.Terms, has func([]spec.Lease) bool) (*spec.Lease, error) {
	d := e.Store.Sandbox(sb.ID)
	list, err := vault.ReadLeases(d.Leases())
	if err != nil {
		return nil, err
	}
	if has != nil && has(list) {
		return nil, nil
	}
	c, s, v, err := e.borrow(ctx, sb, secret, t, list)
	if err != nil {
		return nil, err
	}
	defer c.End()
	now := time.Now()
	l, err := vault.NewLease(s, sb.ID, usual(s, t), v.value, now)
	if err != nil {
		return nil, err
	}
	if v.login != nil {
		v.login.standIn(s, &l)
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
	if err := clash(vault.Live(list, now), &l); err != nil {
		return nil, err
	}
	if list, err = addLease(d, list, l, now); err != nil {
		return nil, err
	}
	e.note(c, noteLease, leaseFields(&l, sb))
	if v.login != nil && d.ReadStatus().StartedAt != nil {
		e.say("the login is in ~/%s of sandbox %s from its next start on", v.login.at.How.File, sb.Name)
	}
	return &l, e.announceLoans(ctx, sb, list, []wire.Loan{v.loan(l)})
}

// usual completes terms with what goes without saying of a secret: a login is a file inside.
func usual(s *vault.Secret, t vault.Terms) vault.Terms {
	if s.Source.Kind == vault.SourceLogin && t.Env == nil {
		t.Env = []string{}
	}
	return t
}

// addLease adds one to those of a sandbox, in the place of those that ran out. It is on the
// disk before the mark that there was one, so that none who is killed leaves a mark alone; the
// mark of those that go is there before they are gone.
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

// markLent has it be known that a credential was lent, also when none of a list is there any
// more.
func markLent(d store.Sandbox, list []spec.Lease) error {
	if !slices.ContainsFunc(list, isCredential) {
		return nil
	}
	if _, err := os.Lstat(d.Lent()); err == nil {
		return nil
	}
	return store.WriteFile(d.Lent(), nil)
}

// isCredential tells the lease of one from that of a tool's token.
func isCredential(l spec.Lease) bool { return l.Tool == "" }

// hasLive tells of a secret that is lent, for [Engine.lend].
func hasLive(secret string) func([]spec.Lease) bool {
	return func(list []spec.Lease) bool {
		return slices.ContainsFunc(vault.Live(list, time.Now()), func(l spec.Lease) bool { return l.Secret == secret })
	}
}

// NeverLent tells of a sandbox that no credential was ever lent to; tokens of tools
// do not count. What was taken back, or has ended, was lent.
func (e *Engine) NeverLent(sb *spec.Sandbox) bool {
	list, err := e.Leases(sb)
	return err == nil && neverLent(e.Store.Sandbox(sb.ID), list)
}

func neverLent(d store.Sandbox, list []spec.Lease) bool {
	_, err := os.Lstat(d.Lent())
	return errors.Is(err, fs.ErrNotExist) && !slices.ContainsFunc(list, isCredential)
}

// borrow reads a secret's value for a sandbox with leases and takes the lock of the vault. A
// source may take its time, and leases must be revocable meanwhile, so the value is read
// before; if the secret was set again by then, it is read once more. It is not read for what
// cannot be lent whatever it is: somebody may be asked for a password.
func (e *Engine) borrow(ctx context.Context, sb *spec.Sandbox, secret string, t vault.Terms, list []spec.Lease) (*vault.Change, *vault.Secret, got, error) {
	for {
		d, err := e.vault().Read()
		if err != nil {
			return nil, nil, got{}, err
		}
		if s, err := d.Find(secret); err == nil {
			if err := lendable(sb, s, t, list); err != nil {
				return nil, nil, got{}, err
			}
		}
		v := e.values(ctx, d, []string{secret})[secret]
		if v.err != nil {
			return nil, nil, got{}, v.err
		}
		c, err := e.vault().Begin()
		if err != nil {
			return nil, nil, got{}, err
		}
		s, err := c.Find(secret)
		if err != nil {
			c.End()
			return nil, nil, got{}, err
		}
		if read, _ := d.Find(secret); read.Revision == s.Revision {
			return c, s, v, nil
		}
		c.End()
	}
}

// lendable judges what can be judged without a secret's value.
func lendable(sb *spec.Sandbox, s *vault.Secret, t vault.Terms, list []spec.Lease) error {
	now := time.Now()
	l, err := vault.NewLease(s, sb.ID, usual(s, t), nil, now)
	if err == nil {
		err = unplayed(sb, s.Name, vault.HostsOf(s, t))
	}
	if err == nil {
		err = clash(vault.Live(list, now), &l)
	}
	return err
}

// clash refuses two leases with the same variable, or of the same login.
func clash(list []spec.Lease, l *spec.Lease) error {
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

// writeLeases replaces a sandbox's leases. Whoever starts the sandbox sweeps
// its directory, and may take our temporary file along.
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

// Revoke ends leases, also of what runs: those of a sandbox or, without one, of
// all, that a function chooses. It gives those it ended.
func (e *Engine) Revoke(ctx context.Context, sb *spec.Sandbox, which func(*spec.Lease) bool) ([]spec.Lease, error) {
	c, err := e.vault().Begin()
	if err != nil {
		// What the vault holds is not needed to end a lease.
		if c, err = e.vault().BeginBlind(); err != nil {
			return nil, err
		}
	}
	defer c.End()
	return e.revoke(ctx, c, sb, which)
}

func (e *Engine) revoke(ctx context.Context, c *vault.Change, only *spec.Sandbox, which func(*spec.Lease) bool) ([]spec.Lease, error) {
	var gone []spec.Lease
	var mu sync.Mutex
	err := e.eachSandbox(func(sb *spec.Sandbox) error {
		if only != nil && sb.ID != only.ID {
			return nil
		}
		ended, err := e.revokeIn(ctx, sb, which)
		mu.Lock()
		defer mu.Unlock()
		e.noteRevoked(c, ended, sb)
		gone = append(gone, ended...)
		return err
	})
	if only == nil {
		away, aerr := e.revokeAway(c, which)
		gone, err = append(gone, away...), errors.Join(err, aerr)
	}
	return gone, err
}

func (e *Engine) noteRevoked(c *vault.Change, ended []spec.Lease, sb *spec.Sandbox) {
	for _, l := range ended {
		e.note(c, noteRevoke, map[string]any{"secret": l.Secret, "lease": l.ID, "sandbox": sb.Name, "sandbox_id": sb.ID})
	}
}

// revokeIn ends leases of one sandbox. Leases that cannot be read all go: fail
// closed.
func (e *Engine) revokeIn(ctx context.Context, sb *spec.Sandbox, which func(*spec.Lease) bool) ([]spec.Lease, error) {
	d := e.Store.Sandbox(sb.ID)
	path := d.Leases()
	list, unread := vault.ReadLeases(path)
	gone, left := vault.Part(list, which)
	// After the keeper knows: what a renewal under way puts back then, its gateway removes.
	defer func() { e.forgetLogins(sb, left) }()
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
	return gone, errors.Join(unread, marked, e.announceLoans(ctx, sb, left, nil))
}

// announceLoans tells a sandbox that runs what it is lent now, and the values
// that are new. The caller holds the lock of the vault, or changes could arrive
// in another order than they were made.
func (e *Engine) announceLoans(ctx context.Context, sb *spec.Sandbox, list []spec.Lease, put []wire.Loan) error {
	ask := wire.Ask{Op: wire.OpLoans, Loans: wire.LoanChange{Put: put, Keep: ids(list)}}
	limit := tellTime // a keeper finds by itself what is revoked
	if len(put) > 0 {
		limit = answerTime
	}
	return unanswered(sb, e.tellSoon(ctx, sb, limit, ask))
}

// unanswered says that the change is on the disk and may not be in force.
func unanswered(sb *spec.Sandbox, err error) error {
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	hint := spec.Hint(err)
	if hint == "" {
		hint = fmt.Sprintf("what is revoked is so as soon as it goes on; what is new it has from its next start on: bothy stop %s", sb.Name)
	}
	return &spec.Error{Op: "tell sandbox " + sb.Name + " what it is lent", Err: err, Hint: hint}
}

func ids(list []spec.Lease) []string {
	var out []string
	for _, l := range list {
		out = append(out, l.ID)
	}
	return out
}
