package grants

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/keeper/launch"
	"github.com/bothy-dev/bothy/internal/oauthfile"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/internal/vault/ask"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
	"github.com/bothy-dev/bothy/test/harness"
)

// keeps makes a keeper that keeps logins made inside, with a lease of another secret.
func keeps(t *testing.T) (*Grants, *lender) {
	t.Helper()
	g, k := &lender{}, granting()
	k.gateway, k.Dir = g, store.Sandbox{Dir: t.TempDir()}
	k.Launch.Bothy = ask.Self
	other := loan("a", "one")
	if err := errors.Join(vault.WriteLeases(k.Dir.Leases(), []spec.Lease{other.Lease}), k.setLoans(append(k.loans, other))); err != nil {
		t.Fatal(err)
	}
	k.Launch.Login = &launch.Login{Agent: "tool", Vault: filepath.Join(k.Dir.Dir, "secrets"), How: spec.AgentLogin{
		File: ".tool/login.json", Service: "claude", Access: "/a", Refresh: "/r", Expires: "/e", Identity: "/i", Claims: []string{"/plan"},
		Endpoint: "https://auth.example.com/oauth/token", Again: "tool login", Capture: &spec.AgentCapture{},
	}}
	keyed(t, k.Launch.Login.Vault)
	return k, g
}

// keyed gives a vault a key, and returns the key.
func keyed(t *testing.T, dir string) vault.Answer {
	t.Helper()
	key, err := ask.Do(t.Context(), ask.Self, vault.Order{Op: vault.OpMake, Guard: vault.GuardFile})
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = store.WriteJSON(filepath.Join(dir, "vault.json"), vault.Document{Version: 1, Guard: key.Guard, Recipient: key.Recipient, Secrets: []vault.Secret{}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// inForce returns the login that a gateway was given last.
func (g *lender) inForce(t *testing.T) oauthfile.File {
	t.Helper()
	for _, l := range slices.Backward(g.has) {
		if l.Login != nil && !l.Taken {
			return oauthfile.File{Path: l.Login.Path, How: l.Login.How, Inside: l.Login.Inside, Secret: l.Secret, Seal: l.Login.Seal}
		}
	}
	t.Fatal("no login is lent")
	return oauthfile.File{}
}

func grant(n int) oauthfile.Grant {
	return oauthfile.Grant{Access: fmt.Sprintf("sk-ant-oat01-REALREALREALREALREAL-%d", n), Refresh: fmt.Sprintf("sk-ant-ort01-REALREALREALREALREAL-%d", n), Lifetime: time.Hour}
}

// TestKeepLogin checks that a login made inside is lent to the sandbox, and that its tokens are in
// one file that only its owner can read. Another login does not replace it: its account would be
// unknown.
func TestKeepLogin(t *testing.T) {
	k, g := keeps(t)
	l, _, err := k.keepLogin(t.Context(), grant(1))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := k.keepLogin(t.Context(), grant(2)); !errors.Is(err, oauthfile.ErrLoggedIn) || !strings.Contains(err.Error(), "bothy secret revoke tool-login@box, on the host, first") {
		t.Errorf("a second one: %v", err)
	}
	if l.Secret != "tool-login@box" || l.Captured != "tool" || l.Sandbox != k.Spec.ID || len(l.Env) != 0 || l.Hosts[0] != "api.anthropic.com:443" ||
		!strings.HasPrefix(l.Placeholder, "sk-ant-oat01-") || !strings.HasPrefix(l.Renewal, "sk-ant-ort01-") || strings.Contains(l.Placeholder+l.Renewal, "REAL") {
		t.Errorf("%+v", l)
	}
	k.has(t, g, "a=one "+l.ID+"="+grant(1).Access, l.ID)
	if info, err := os.Stat(k.Dir.Login(l.ID)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	d, err := g.inForce(t).Read()
	if err != nil || d.Access != grant(1).Access || d.Refresh != grant(1).Refresh || time.Until(d.Expires) > time.Hour {
		t.Errorf("%+v, %v", d, err)
	}
	log, _ := os.ReadFile(filepath.Join(k.Launch.Login.Vault, "audit.jsonl"))
	if strings.Contains(string(log), "REAL") || strings.Count(string(log), "tool-login@box") != 1 {
		t.Errorf("%s", log)
	}
	if _, err := os.Stat(k.Dir.Lent()); err != nil {
		t.Error(err)
	}
}

// TestKeepLoginSealed checks that the login on the disk is sealed with the key that the gateway
// uses for renewals. The key of the secrets opens that key for the next keeper.
func TestKeepLoginSealed(t *testing.T) {
	k, g := keeps(t)
	key := keyed(t, k.Launch.Login.Vault)
	if _, _, err := k.keepLogin(t.Context(), grant(1)); err != nil {
		t.Fatal(err)
	}
	f := g.inForce(t)
	sealed, err := f.SealedKey()
	if err != nil || sealed == "" {
		t.Fatalf("%q, %v", sealed, err)
	}
	o := vault.Order{Op: vault.OpOpen, Guard: key.Guard, Recipient: key.Recipient, Identity: key.Identity, Items: []vault.Item{{Name: "k", Sealed: sealed}}}
	a, err := ask.Do(t.Context(), ask.Self, o)
	if err != nil || a.Items[0].Error != nil {
		t.Fatalf("%+v, %v", a, err)
	}
	if f.Seal, err = ask.OpenedLoginKey(a.Items[0].Value, sealed); err != nil {
		t.Fatal(err)
	}
	if d, err := f.Read(); err != nil || d.Refresh != grant(1).Refresh {
		t.Errorf("%+v, %v", d, err)
	}
	harness.AbsentInFiles(t, k.Dir.Dir, grant(1).Access)
	harness.AbsentInFiles(t, k.Dir.Dir, grant(1).Refresh)
}

// TestKeepLoginAfterRevoke checks that another login is kept once the lease of the first has ended.
// A login that the gateway refuses leaves the lent secrets alone, and the next one is kept.
func TestKeepLoginAfterRevoke(t *testing.T) {
	k, g := keeps(t)
	first, _, err := k.keepLogin(t.Context(), grant(1))
	if err != nil {
		t.Fatal(err)
	}
	other := loan("a", "one").Lease
	if err := errors.Join(vault.WriteLeases(k.Dir.Leases(), []spec.Lease{other}), k.ChangeLoans(wire.LoanChange{Keep: []string{"a"}}), os.Remove(k.Dir.Login(first.ID))); err != nil {
		t.Fatal(err)
	}
	gateway := k.gateway
	k.gateway = refusing{gateway}
	if _, _, err := k.keepLogin(t.Context(), grant(2)); err == nil {
		t.Error("what the gateway refused is kept")
	}
	k.has(t, g, "a=one "+first.ID+"=*"+grant(1).Access)
	k.gateway = gateway
	l, _, err := k.keepLogin(t.Context(), grant(3))
	if err != nil {
		t.Fatal(err)
	}
	k.has(t, g, "a=one "+first.ID+"=*"+grant(1).Access+" "+l.ID+"="+grant(3).Access, l.ID)
}

// has checks the secrets in force, and that the disk and the list of leases contain exactly the
// named logins.
func (k *Grants) has(t *testing.T, g *lender, force string, logins ...string) {
	t.Helper()
	if got := g.holds(); got != force {
		t.Errorf("in force is %s\nand not %s", got, force)
	}
	list, err := vault.ReadLeases(k.Dir.Leases())
	if want := append([]string{"a"}, logins...); err != nil || !slices.EqualFunc(list, want, func(l spec.Lease, id string) bool { return l.ID == id }) {
		t.Errorf("%+v, %v", list, err)
	}
	names, _ := filepath.Glob(filepath.Join(k.Dir.Dir, "login", "*"))
	if !slices.EqualFunc(names, logins, func(name, id string) bool { return name == k.Dir.Login(id) }) {
		t.Errorf("there are %v", names)
	}
}

// TestKeepIdentity checks that an ID token stays outside; its placeholder has the listed claims.
func TestKeepIdentity(t *testing.T) {
	k, _ := keeps(t)
	g := grant(1)
	g.Identity = "e30.eyJwbGFuIjoicGx1cyIsImVtYWlsIjoibWUifQ.REAL" // {"plan":"plus","email":"me"}
	_, identity, err := k.keepLogin(t.Context(), g)
	if parts := strings.Split(identity, "."); err != nil || len(parts) != 3 || parts[2] == "REAL" || strings.Contains(g.Identity, parts[1]) {
		t.Errorf("%s, %v", identity, err)
	}
}

// TestKeepLoginFails checks that a failed login leaves nothing behind and changes nothing else.
func TestKeepLoginFails(t *testing.T) {
	for what, spoil := range map[string]func(*Grants, *oauthfile.Grant){
		"no renewal":   func(_ *Grants, g *oauthfile.Grant) { g.Refresh = "" },
		"an odd token": func(_ *Grants, g *oauthfile.Grant) { g.Access = "two words that are none" },
		"a huge one":   func(_ *Grants, g *oauthfile.Grant) { g.Access = strings.Repeat("x", 9<<10) },
		"no key":       func(k *Grants, _ *oauthfile.Grant) { _ = os.Remove(filepath.Join(k.Launch.Login.Vault, "vault.json")) },
		"a broken vault": func(k *Grants, _ *oauthfile.Grant) {
			_ = os.WriteFile(filepath.Join(k.Launch.Login.Vault, "vault.json"), []byte("{"), 0o600)
		},
		"an odd key": func(k *Grants, _ *oauthfile.Grant) {
			_ = os.WriteFile(filepath.Join(k.Launch.Login.Vault, "vault.json"), []byte(`{"version":1,"guard":"file","recipient":"age1nobody","secrets":[]}`), 0o600)
		},
		"no lock":        func(k *Grants, _ *oauthfile.Grant) { k.Launch.Login.Vault = "/dev/null/secrets" },
		"broken leases":  func(k *Grants, _ *oauthfile.Grant) { _ = os.WriteFile(k.Dir.Leases(), []byte("{"), 0o600) },
		"no place":       func(k *Grants, _ *oauthfile.Grant) { _ = os.WriteFile(filepath.Join(k.Dir.Dir, "login"), nil, 0o600) },
		"an old gateway": func(k *Grants, _ *oauthfile.Grant) { k.gateway = refusing{k.gateway} },
	} {
		t.Run(what, func(t *testing.T) {
			k, g := keeps(t)
			tokens := grant(1)
			spoil(k, &tokens)
			before, _ := os.ReadFile(k.Dir.Leases())
			if l, _, err := k.keepLogin(t.Context(), tokens); err == nil || l != nil {
				t.Errorf("%+v", l)
			} else if text, _ := json.Marshal(err.Error()); strings.Contains(string(text), "REAL") {
				t.Errorf("%s", text)
			}
			if after, _ := os.ReadFile(k.Dir.Leases()); string(after) != string(before) {
				t.Errorf("the leases are %s", after)
			}
			if names, _ := filepath.Glob(filepath.Join(k.Dir.Dir, "login", "*")); len(names) > 0 {
				t.Errorf("there are %v", names)
			}
			if got := g.holds(); got != "a=one" {
				t.Errorf("in force is %s", got)
			}
		})
	}
}

// TestKeepLoginLocked checks that a login gives up on a held lock before its requester does. The
// holder may be asking a user for a passphrase.
func TestKeepLoginLocked(t *testing.T) {
	k, g := keeps(t)
	c, err := vault.Vault{Dir: k.Launch.Login.Vault}.BeginBlind()
	if err != nil {
		t.Fatal(err)
	}
	defer c.End()
	ended := errors.New("it is stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ended)
	if _, _, err := k.keepLogin(ctx, grant(1)); !errors.Is(err, ended) || !strings.Contains(err.Error(), "another bothy changes them") {
		t.Error(err)
	}
	k.has(t, g, "a=one")
}

// TestKeepLoginSweeps checks that a new login removes files of logins that have no lease.
func TestKeepLoginSweeps(t *testing.T) {
	k, g := keeps(t)
	left := k.Dir.Login("lease-killed")
	if err := errors.Join(os.Mkdir(k.Dir.Logins(), 0o700), os.WriteFile(left, []byte("{}"), 0o600), os.WriteFile(left+".bothy", []byte("{}"), 0o600)); err != nil {
		t.Fatal(err)
	}
	l, _, err := k.keepLogin(t.Context(), grant(1))
	if err != nil {
		t.Fatal(err)
	}
	k.has(t, g, "a=one "+l.ID+"="+grant(1).Access, l.ID)
}

// TestKeepLoginAtOnce checks that one of several concurrent logins is kept; failed ones do not count.
func TestKeepLoginAtOnce(t *testing.T) {
	k, _ := keeps(t)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			odd := grant(i)
			odd.Refresh = ""
			if _, _, err := k.keepLogin(t.Context(), odd); err == nil {
				t.Error("one without a renewal is kept")
			}
		})
	}
	wg.Wait()
	var kept atomic.Int32
	for i := range 4 {
		wg.Go(func() {
			if _, _, err := k.keepLogin(t.Context(), grant(i)); err == nil {
				kept.Add(1)
			} else if !errors.Is(err, oauthfile.ErrLoggedIn) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := kept.Load(); n != 1 {
		t.Errorf("%d are kept", n)
	}
}

// TestKeepLoginWithoutLock checks that a sandbox that is logged in does not touch the shared lock.
func TestKeepLoginWithoutLock(t *testing.T) {
	k, _ := keeps(t)
	if _, _, err := k.keepLogin(t.Context(), grant(1)); err != nil {
		t.Fatal(err)
	}
	k.Launch.Login.Vault += "-other"
	if _, _, err := k.keepLogin(t.Context(), grant(2)); !errors.Is(err, oauthfile.ErrLoggedIn) {
		t.Error(err)
	}
	if _, err := os.Stat(k.Launch.Login.Vault); !os.IsNotExist(err) {
		t.Errorf("the vault was opened: %v", err)
	}
}

// refusing is a gateway that refuses every login.
type refusing struct{ Gateway }

func (g refusing) SetLoans(loans []wire.Loan) error {
	for _, l := range loans {
		if l.Login != nil && !l.Taken {
			return errors.New("it takes none")
		}
	}
	return g.Gateway.SetLoans(loans)
}
