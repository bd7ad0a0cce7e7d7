package engine

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/credential"
	"github.com/bothy-dev/bothy/internal/credential/credentialtest"
	"github.com/bothy-dev/bothy/internal/image"
	"github.com/bothy-dev/bothy/internal/image/pull"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/internal/vault/sealer"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

func TestMain(m *testing.M) {
	switch os.Args[0] {
	case vault.Argv0:
		os.Exit(sealer.Main(os.Stdin, os.Stdout))
	case image.Argv0:
		os.Exit(pull.Main(os.Stdin, os.Stdout))
	}
	for _, name := range []string{"DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "BOTHY_VAULT_PASSPHRASE_FILE"} {
		_ = os.Unsetenv(name)
	}
	os.Exit(m.Run())
}

const canary = "sk-canary-0123456789abcdef"

var here = context.Background()

func stored(name, value string) credential.NewSecret {
	return credential.NewSecret{Name: name, Source: vault.Source{Kind: vault.SourceStored}, Value: []byte(value)}
}

// lent returns a sandbox with a lease of a secret.
func lent(t *testing.T, e *Engine, secret string) (*spec.Sandbox, *spec.Lease) {
	t.Helper()
	sb := wish(t.TempDir())
	must(t, e.Create(t.Context(), sb))
	l, err := e.Credentials().Lend(here, sb, secret, vault.Terms{Hosts: []string{"api.example.com"}})
	must(t, err)
	return sb, l
}

// signedIn returns an engine on a host on which a user of claude has logged in, with the file of the
// login.
func signedIn(t *testing.T) (e *Engine, path string, said *[]string) {
	t.Helper()
	e, said = newEngine(t), &[]string{}
	e.Agents = agent.NewCatalog("")
	e.Progress = func(s string) { *said = append(*said, s) }
	return e, credentialtest.SignIn(t), said
}

func claude(t *testing.T, e *Engine) *spec.Agent {
	t.Helper()
	a, err := e.Agents.Find("claude")
	must(t, err)
	return a
}

// fakeKeeper answers for a sandbox and records the requests.
type fakeKeeper struct {
	changes chan wire.LoanChange
	rules   chan json.RawMessage
	own     atomic.Bool // the last request was without the project's rules
	refuse  atomic.Bool
	ends    atomic.Bool // in the middle of a request
}

func (f *fakeKeeper) serve(t *testing.T, d store.Sandbox) {
	t.Helper()
	f.changes, f.rules = make(chan wire.LoanChange, 8), make(chan json.RawMessage, 8)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: d.Control(), Net: "unix"})
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			uc, err := l.AcceptUnix()
			if err != nil {
				return
			}
			c := unixconn.New(uc)
			_ = c.SendJSON(wire.Hello, wire.Greeting{Protocol: wire.Protocol})
			var ask wire.Ask
			if c.Expect(wire.Request, &ask) == nil {
				switch ask.Op {
				case wire.OpLoans:
					f.changes <- ask.Loans
				case wire.OpPolicy, wire.OpOwnPolicy:
					f.own.Store(ask.Op == wire.OpOwnPolicy)
					f.rules <- ask.Policy
				}
				if f.ends.Load() {
					l.Close()
				} else if f.refuse.Load() {
					_ = c.SendError(errors.New("no"))
				} else {
					_ = c.SendJSON(wire.Reply, struct{}{})
				}
			}
			c.Close()
		}
	}()
}

func (f *fakeKeeper) told(t *testing.T) wire.LoanChange {
	t.Helper()
	select {
	case c := <-f.changes:
		return c
	case <-time.After(time.Minute):
		t.Fatal("the keeper was told nothing")
		panic("unreachable")
	}
}

// TestRunningSandbox checks that changes reach running sandboxes.
func TestRunningSandbox(t *testing.T) {
	e := newEngine(t)
	must(t, e.Credentials().SetSecret(here, stored("mine", canary)))
	must(t, e.Credentials().SetSecret(here, stored("yours", canary+"-yours")))
	sb, first := lent(t, e, "mine")
	k := &fakeKeeper{}
	k.serve(t, e.Store.Sandbox(sb.ID))

	second, err := e.Credentials().Lend(here, sb, "yours", vault.Terms{Hosts: []string{"b.example.com"}})
	must(t, err)
	if c := k.told(t); len(c.Put) != 1 || c.Put[0].ID != second.ID || string(c.Put[0].Value) != canary+"-yours" || !slices.Equal(c.Keep, []string{first.ID, second.ID}) {
		t.Errorf("of the lease: %+v", c)
	}
	must(t, e.Credentials().SetSecret(here, stored("mine", canary+"-new")))
	if c := k.told(t); len(c.Put) != 1 || c.Put[0].ID != first.ID || string(c.Put[0].Value) != canary+"-new" || len(c.Keep) != 2 {
		t.Errorf("of the new value: %+v", c)
	}
	// The new source fails: no value is better than the old one.
	err = e.Credentials().SetSecret(here, credential.NewSecret{Name: "mine", Source: vault.Source{Kind: vault.SourceEnvironment, Variable: "NOT_THERE"}})
	if c := k.told(t); err == nil || len(c.Put) != 0 || !slices.Equal(c.Keep, []string{second.ID}) {
		t.Errorf("of a source that fails: %+v, %v", c, err)
	}
	gone, err := e.Credentials().Revoke(here, sb, func(l *spec.Lease) bool { return l.Secret == "mine" })
	must(t, err)
	if c := k.told(t); len(gone) != 1 || len(c.Put) != 0 || !slices.Equal(c.Keep, []string{second.ID}) {
		t.Errorf("of the revocation: %+v", c)
	}
	must(t, e.Credentials().RemoveSecret(here, "yours"))
	if c := k.told(t); len(c.Put)+len(c.Keep) != 0 {
		t.Errorf("of the removal: %+v", c)
	}
	k.refuse.Store(true)
	must(t, e.Credentials().SetSecret(here, stored("mine", canary)))
	if _, err := e.Credentials().Lend(here, sb, "mine", vault.Terms{Hosts: []string{"a.example.com"}}); err == nil || !strings.Contains(spec.Hint(err), "bothy stop "+sb.Name) {
		t.Errorf("to a keeper that refuses: %v", err)
	}
}

// TestRevokeWhileStarting checks that a revocation waits for a sandbox that is starting: it may have
// read its leases before.
func TestRevokeWhileStarting(t *testing.T) {
	e := newEngine(t)
	must(t, e.Credentials().SetSecret(here, stored("mine", canary)))
	sb, _ := lent(t, e, "mine")
	d := e.Store.Sandbox(sb.ID)
	lock, err := store.TryLock(d.Lock())
	must(t, err)
	defer lock.Unlock()
	done := make(chan error, 1)
	go func() {
		_, err := e.Credentials().Revoke(here, nil, func(*spec.Lease) bool { return true })
		done <- err
	}()
	for { // until the leases are gone from the disk
		if list, err := e.Credentials().Leases(sb); err == nil && len(list) == 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	k := &fakeKeeper{}
	k.serve(t, d)
	if c := k.told(t); len(c.Keep) != 0 {
		t.Errorf("%+v", c)
	}
	must(t, <-done)
}
