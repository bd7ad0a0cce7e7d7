package grants

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/oauthfile"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/internal/vault/ask"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// Capture keeps tokens that programs inside receive.
type Capture struct {
	How spec.AgentLogin
	// Keep lends the tokens to the sandbox, and returns their placeholders for the inside. Identity
	// is the placeholder of the ID token; empty if there is none.
	// Keep gives up if it cannot soon get a lock, or when the context ends.
	Keep func(context.Context, oauthfile.Grant) (lease *spec.Lease, identity string, err error)
}

func (g *Grants) Capture() *Capture {
	if g.Launch.Login == nil {
		return nil
	}
	return &Capture{How: g.Launch.Login.How, Keep: g.keepLogin}
}

// keepTime is how long a login waits to be kept.
const keepTime = 10 * time.Second

// errKeepTime is made without a format: every process would pay for formatting at its start.
var errKeepTime error = tooLong(keepTime)

// tooLong is the error of an operation that ran out of this time.
type tooLong time.Duration

func (d tooLong) Error() string { return fmt.Sprintf("it took longer than %v", time.Duration(d)) }

// keepLogin makes a login from tokens, for this sandbox alone, and lends it. A sandbox has at
// most one such login: otherwise a program inside with another account's tokens could redirect
// all that the agent says to that account. keepLogin waits for the lock under which leases
// change. A holder of that lock never waits for g.mu, but may be asking a user something, so
// the wait is short. Logins are kept one after the other: a file lock orders nothing within a
// process.
func (g *Grants) keepLogin(ctx context.Context, tokens oauthfile.Grant) (*spec.Lease, string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, keepTime, errKeepTime) // includes the wait for earlier logins
	defer cancel()
	g.keeping.Lock()
	defer g.keeping.Unlock()
	now := time.Now()
	if _, err := g.loggedOut(now); err != nil { // only then is the lock needed
		return nil, "", err
	}
	c, err := vault.Vault{Dir: g.Launch.Login.Vault}.TryBegin(ctx)
	if err != nil {
		return nil, "", err
	}
	defer c.End()
	list, err := g.loggedOut(now)
	if err != nil {
		return nil, "", err
	}
	loan, identity, err := g.newLogin(ctx, tokens, now)
	if err != nil {
		return nil, "", err
	}
	if err := g.lendLogin(list, loan); err != nil {
		return nil, "", errors.Join(err, oauthfile.Sweep(g.Dir, list))
	}
	if err := oauthfile.Sweep(g.Dir, append(list, loan.Lease)); err != nil {
		g.Log.Warn("remove the rest of logins", "err", err)
	}
	g.noteLogin(c, &loan.Lease)
	return &loan.Lease, identity, nil
}

// loggedOut returns the leases; it is an error if one is of a login made inside.
func (g *Grants) loggedOut(now time.Time) ([]spec.Lease, error) {
	list, err := vault.ReadLeases(g.Dir.Leases())
	if err != nil {
		return nil, err
	}
	for _, l := range list {
		if l.Captured != "" && l.Live(now) {
			return nil, fmt.Errorf("%w; to log in anew: bothy secret revoke %s, on the host, first", oauthfile.ErrLoggedIn, l.Secret)
		}
	}
	return list, nil
}

// newLogin writes a login, sealed, and makes a lease for it.
func (g *Grants) newLogin(ctx context.Context, tokens oauthfile.Grant, now time.Time) (*wire.Loan, string, error) {
	from := g.Launch.Login
	s := vault.Secret{Name: from.Agent + "-login@" + g.Spec.Name, Service: from.How.Service}
	l, err := vault.NewLease(&s, g.Spec.ID, vault.Terms{Env: []string{}}, []byte(tokens.Access), now)
	if err != nil {
		return nil, "", err
	}
	l.Captured = from.Agent
	f := oauthfile.File{Path: g.Dir.Login(l.ID), How: from.How, Inside: true, Secret: s.Name}
	if f.Seal, err = loginKey(ctx, g.Launch.Bothy, from.Vault); err != nil {
		return nil, "", err
	}
	d, err := f.Create(tokens, now)
	if err != nil {
		return nil, "", err
	}
	access, _ := d.StandIn()
	vault.StandIn(&l, s.Service, access, d.Refresh)
	identity := ""
	if tokens.Identity != "" {
		identity = d.StandInIdentity(tokens.Identity)
	}
	return &wire.Loan{
		Lease: l, Value: wire.Value(d.Access), Masked: []wire.Value{wire.Value(d.Refresh)},
		Login: &wire.Login{Path: f.Path, How: f.How, Inside: true, Seal: f.Seal, Expires: d.Expires, Due: d.Due},
	}, identity, nil
}

// loginKey makes a key for a login, sealed like secrets.
func loginKey(ctx context.Context, program, dir string) (*wire.Seal, error) {
	d, err := vault.Vault{Dir: dir}.Read()
	if err != nil {
		return nil, err
	}
	return ask.LoginKey(ctx, program, d)
}

// lendLogin adds a lease to those on the disk and puts it into force. If the gateway refuses
// it, lendLogin removes it from the disk again; the others stay lent as before.
func (g *Grants) lendLogin(others []spec.Lease, loan *wire.Loan) error {
	if err := vault.WriteLeases(g.Dir.Leases(), append(slices.Clone(others), loan.Lease)); err != nil {
		return err
	}
	if err := store.WriteFile(g.Dir.Lent(), nil); err != nil { // after the leases: a kill in between then leaves no mark without a lease
		return errors.Join(err, vault.WriteLeases(g.Dir.Leases(), others))
	}
	change := wire.LoanChange{Put: []wire.Loan{*loan}, Keep: []string{loan.ID}}
	for _, l := range others {
		change.Keep = append(change.Keep, l.ID)
	}
	err := g.ChangeLoans(change)
	if err != nil {
		err = errors.Join(fmt.Errorf("lend a login: %w", err), vault.WriteLeases(g.Dir.Leases(), others))
	}
	return err
}

// noteLogin writes the kept login into the log of the secrets. If that fails the login stays
// kept, and the keeper logs a warning.
func (g *Grants) noteLogin(c *vault.Change, l *spec.Lease) {
	err := c.Note("login", map[string]any{"secret": l.Secret, "lease": l.ID, "sandbox": g.Spec.Name, "sandbox_id": g.Spec.ID, "hosts": l.Hosts, "place": l.Place.Kind})
	if err != nil {
		g.Log.Warn("write the log of the secrets", "err", err)
	}
}
