package keeper

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/login"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// LoginInside says how what an agent gets that logs in inside is kept on the host.
type LoginInside struct {
	Agent string          `json:"agent"` // its name
	How   spec.AgentLogin `json:"how"`
	Vault string          `json:"vault"` // the directory of the secrets, whose lock and log are used
}

// Capture keeps tokens that programs inside are given.
type Capture struct {
	How spec.AgentLogin
	// Keep lends them to the sandbox, and gives what stands for them inside. Identity is
	// for the ID token; empty if there is none.
	Keep func(login.Grant) (lease *spec.Lease, identity string, err error)
}

func (k *Keeper) captures() *Capture {
	if k.launch.Login == nil {
		return nil
	}
	return &Capture{How: k.launch.Login.How, Keep: k.keepLogin}
}

// maxLogins is how many logins a sandbox keeps from a start to the next: programs inside
// can have a server of theirs give any number.
const maxLogins = 16

// keepLogin makes a login of tokens, which is this sandbox's alone, in the place of the one
// made before, and lends it. It waits for the lock under which leases change, which
// nobody holds who waits for k.mu. One login is kept after the other: the lock on a file
// orders nothing within a process.
func (k *Keeper) keepLogin(g login.Grant) (*spec.Lease, string, error) {
	k.keeping.Lock()
	defer k.keeping.Unlock()
	if k.logins >= maxLogins {
		return nil, "", spec.Errorf(spec.ErrDenied, "it has logged in %d times since it was started", maxLogins).WithHint("bothy stop %s, and start it again", k.spec.Name)
	}
	c, err := vault.Vault{Dir: k.launch.Login.Vault}.BeginBlind()
	if err != nil {
		return nil, "", err
	}
	defer c.End()
	list, err := vault.ReadLeases(k.dir.Leases())
	if err != nil {
		return nil, "", err
	}
	loan, identity, err := k.newLogin(g, time.Now())
	if err != nil {
		return nil, "", err
	}
	var before []spec.Lease
	list = slices.DeleteFunc(list, func(l spec.Lease) bool {
		if l.Captured == "" {
			return false
		}
		before = append(before, l)
		return true
	})
	if err := k.lendLogin(list, loan); err != nil {
		return nil, "", errors.Join(err, os.Remove(k.dir.Login(loan.ID)))
	}
	for _, l := range before {
		_ = os.Remove(k.dir.Login(l.ID))
	}
	k.logins++
	k.noteLogin(c, loan, before)
	return &loan.Lease, identity, nil
}

// newLogin writes a login, and makes a lease of it.
func (k *Keeper) newLogin(g login.Grant, now time.Time) (*wire.Loan, string, error) {
	from := k.launch.Login
	s := vault.Secret{Name: from.Agent + "-login@" + k.spec.Name, Service: from.How.Service}
	l, err := vault.NewLease(&s, k.spec.ID, vault.Terms{Env: []string{}}, []byte(g.Access), now)
	if err != nil {
		return nil, "", err
	}
	l.Captured = from.Agent
	f := login.File{Path: k.dir.Login(l.ID), How: from.How, Inside: true}
	d, err := f.Create(g, now)
	if err != nil {
		return nil, "", err
	}
	access, _ := d.StandIn()
	vault.StandIn(&l, s.Service, access, d.Refresh)
	identity := ""
	if g.Identity != "" {
		identity = d.StandInIdentity(g.Identity)
	}
	return &wire.Loan{
		Lease: l, Value: wire.Value(d.Access), Masked: []wire.Value{wire.Value(d.Refresh)},
		Login: &wire.Login{Path: f.Path, How: f.How, Inside: true, Expires: d.Expires, Due: d.Due},
	}, identity, nil
}

// lendLogin puts a lease on the disk beside others, and into force. If the gateway will not
// have it, it is on the disk no more.
func (k *Keeper) lendLogin(others []spec.Lease, loan *wire.Loan) error {
	if err := store.WriteFile(k.dir.Lent(), nil); err != nil {
		return err
	}
	if err := vault.WriteLeases(k.dir.Leases(), append(slices.Clone(others), loan.Lease)); err != nil {
		return err
	}
	change := wire.LoanChange{Put: []wire.Loan{*loan}, Keep: []string{loan.ID}}
	for _, l := range others {
		change.Keep = append(change.Keep, l.ID)
	}
	err := k.changeLoans(change)
	if err != nil {
		err = errors.Join(fmt.Errorf("lend a login: %w", err), vault.WriteLeases(k.dir.Leases(), others))
	}
	return err
}

// noteLogin writes into the log of the secrets what was kept. What cannot be logged is done
// all the same, but not in silence.
func (k *Keeper) noteLogin(c *vault.Change, loan *wire.Loan, before []spec.Lease) {
	note := func(what string, l *spec.Lease) {
		err := c.Note(what, map[string]any{"secret": l.Secret, "lease": l.ID, "sandbox": k.spec.Name, "sandbox_id": k.spec.ID, "hosts": l.Hosts, "place": l.Place.Kind})
		if err != nil {
			k.log.Warn("write the log of the secrets", "err", err)
		}
	}
	for i := range before {
		note("revoke", &before[i])
	}
	note("login", &loan.Lease)
}
