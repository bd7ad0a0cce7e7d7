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
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
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
	c, s, v, err := e.borrow(ctx, sb, secret, t)
	if err != nil {
		return nil, err
	}
	defer c.End()
	now := time.Now()
	if v.login != nil && t.Env == nil {
		t.Env = []string{} // it is a file inside
	}
	l, err := vault.NewLease(s, sb.ID, t, v.value, now)
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
	path := e.Store.Sandbox(sb.ID).Leases()
	list, err := vault.ReadLeases(path)
	if err != nil {
		return nil, err
	}
	list = vault.Live(list, now)
	if err := clash(list, &l); err != nil {
		return nil, err
	}
	list = append(list, l)
	if l.Tool == "" {
		if err := store.WriteFile(e.Store.Sandbox(sb.ID).Lent(), nil); err != nil {
			return nil, err
		}
	}
	if err := writeLeases(path, list); err != nil {
		return nil, err
	}
	e.note(c, noteLease, leaseFields(&l, sb))
	if v.login != nil && e.Store.Sandbox(sb.ID).ReadStatus().StartedAt != nil {
		e.say("the login is in ~/%s of sandbox %s from its next start on", v.login.at.How.File, sb.Name)
	}
	return &l, e.announceLoans(ctx, sb, list, []wire.Loan{v.loan(l)})
}

// NeverLent tells of a sandbox that no credential was ever lent to; tokens of tools
// do not count. What was taken back, or has ended, was lent.
func (e *Engine) NeverLent(sb *spec.Sandbox) bool {
	if _, err := os.Lstat(e.Store.Sandbox(sb.ID).Lent()); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	list, err := e.Leases(sb) // of an older Bothy
	return err == nil && !slices.ContainsFunc(list, func(l spec.Lease) bool { return l.Tool == "" })
}

// borrow reads a secret's value for a sandbox and takes the lock of the vault. A source may
// take its time, and leases must be revocable meanwhile, so the value is read
// before; if the secret was set again by then, it is read once more.
func (e *Engine) borrow(ctx context.Context, sb *spec.Sandbox, secret string, t vault.Terms) (*vault.Change, *vault.Secret, got, error) {
	for {
		d, err := e.vault().Read()
		if err != nil {
			return nil, nil, got{}, err
		}
		if s, err := d.Find(secret); err == nil {
			if err := unplayed(sb, secret, hostsOf(s, t)); err != nil {
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

// parted parts leases into those that are chosen and the others.
func parted(list []spec.Lease, which func(*spec.Lease) bool) (chosen, others []spec.Lease) {
	for i, l := range list {
		if which(&list[i]) {
			chosen = append(chosen, l)
		} else {
			others = append(others, l)
		}
	}
	return chosen, others
}

// revokeIn ends leases of one sandbox. Leases that cannot be read all go: fail
// closed.
func (e *Engine) revokeIn(ctx context.Context, sb *spec.Sandbox, which func(*spec.Lease) bool) ([]spec.Lease, error) {
	path := e.Store.Sandbox(sb.ID).Leases()
	list, unread := vault.ReadLeases(path)
	gone, left := parted(list, which)
	// After the keeper knows: what a renewal under way puts back then, its gateway removes.
	defer func() { e.forgetLogins(sb, left) }()
	if len(gone) == 0 && unread == nil {
		return nil, nil
	}
	if unread == nil {
		if err := writeLeases(path, left); err != nil {
			left = list
			return nil, err
		}
	}
	return gone, errors.Join(unread, e.announceLoans(ctx, sb, left, nil))
}

// answerTime bounds the wait for one keeper's answer.
const answerTime = 10 * time.Second

// announceLoans tells a sandbox that runs what it is lent now, and the values
// that are new. The caller holds the lock of the vault, or changes could arrive
// in another order than they were made.
func (e *Engine) announceLoans(ctx context.Context, sb *spec.Sandbox, list []spec.Lease, put []wire.Loan) error {
	ask := wire.Ask{Op: wire.OpLoans, Loans: wire.LoanChange{Put: put, Keep: ids(list)}}
	return unanswered(sb, e.tell(ctx, sb, func(ctx context.Context, c *unixconn.Conn) error {
		ctx, cancel := context.WithTimeout(ctx, answerTime)
		defer cancel()
		return request(ctx, c, ask)
	}, func() error { return nil }))
}

// unanswered says that the change is on the disk and may not be in force.
func unanswered(sb *spec.Sandbox, err error) error {
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	hint := spec.Hint(err)
	if hint == "" {
		hint = fmt.Sprintf("bothy stop %s: what is lent counts from its next start on", sb.Name)
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
