package keeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/login"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// keeps makes a keeper that keeps logins made inside, with a lease of another secret.
func keeps(t *testing.T) (*Keeper, *lender) {
	t.Helper()
	g, k := &lender{}, bare()
	k.gateway, k.log, k.dir = g, quiet(), store.Sandbox{Dir: t.TempDir()}
	other := loan("a", "one")
	if err := errors.Join(vault.WriteLeases(k.dir.Leases(), []spec.Lease{other.Lease}), k.setLoans(append(k.loans, other))); err != nil {
		t.Fatal(err)
	}
	k.launch.Login = &LoginInside{Agent: "tool", Vault: filepath.Join(k.dir.Dir, "secrets"), How: spec.AgentLogin{
		File: ".tool/login.json", Service: "claude", Access: "/a", Refresh: "/r", Expires: "/e", Identity: "/i", Claims: []string{"/plan"},
		Endpoint: "https://auth.example.com/oauth/token", Again: "tool login", Capture: &spec.AgentCapture{},
	}}
	return k, g
}

func grant(n int) login.Grant {
	return login.Grant{Access: fmt.Sprintf("sk-ant-oat01-REALREALREALREALREAL-%d", n), Refresh: fmt.Sprintf("sk-ant-ort01-REALREALREALREALREAL-%d", n), Lifetime: time.Hour}
}

// A login made inside is lent to the sandbox, in the place of the one before, and its tokens
// lie in one file, for its owner alone.
func TestKeepLogin(t *testing.T) {
	k, g := keeps(t)
	first, _, err := k.keepLogin(grant(1))
	if err != nil {
		t.Fatal(err)
	}
	l, _, err := k.keepLogin(grant(2))
	if err != nil {
		t.Fatal(err)
	}
	if l.Secret != "tool-login@box" || l.Captured != "tool" || l.Sandbox != k.spec.ID || len(l.Env) != 0 || l.Hosts[0] != "api.anthropic.com:443" ||
		!strings.HasPrefix(l.Placeholder, "sk-ant-oat01-") || !strings.HasPrefix(l.Renewal, "sk-ant-ort01-") || strings.Contains(l.Placeholder+l.Renewal, "REAL") {
		t.Errorf("%+v", l)
	}
	if got, want := g.holds(), "a=one "+first.ID+"=*"+grant(1).Access+" "+l.ID+"="+grant(2).Access; got != want {
		t.Errorf("in force is %s\nand not %s", got, want)
	}
	list, err := vault.ReadLeases(k.dir.Leases())
	if err != nil || len(list) != 2 || list[0].ID != "a" || list[1].ID != l.ID {
		t.Errorf("%+v, %v", list, err)
	}
	if names, _ := filepath.Glob(filepath.Join(k.dir.Dir, "login", "*")); len(names) != 1 || names[0] != k.dir.Login(l.ID) {
		t.Errorf("there are %v", names)
	}
	if info, err := os.Stat(k.dir.Login(l.ID)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	d, err := login.File{Path: k.dir.Login(l.ID), How: k.launch.Login.How}.Read()
	if err != nil || d.Access != grant(2).Access || d.Refresh != grant(2).Refresh || time.Until(d.Expires) > time.Hour {
		t.Errorf("%+v, %v", d, err)
	}
	log, _ := os.ReadFile(filepath.Join(k.launch.Login.Vault, "audit.jsonl"))
	if strings.Contains(string(log), "REAL") || strings.Count(string(log), "tool-login@box") != 3 {
		t.Errorf("%s", log)
	}
	if _, err := os.Stat(k.dir.Lent()); err != nil {
		t.Error(err)
	}
}

// An ID token stays outside; what stands for it says what the description lists.
func TestKeepIdentity(t *testing.T) {
	k, _ := keeps(t)
	g := grant(1)
	g.Identity = "e30.eyJwbGFuIjoicGx1cyIsImVtYWlsIjoibWUifQ.REAL" // {"plan":"plus","email":"me"}
	_, identity, err := k.keepLogin(g)
	if parts := strings.Split(identity, "."); err != nil || len(parts) != 3 || parts[2] == "REAL" || strings.Contains(g.Identity, parts[1]) {
		t.Errorf("%s, %v", identity, err)
	}
}

// What cannot be kept leaves nothing behind, and all else as it was.
func TestKeepLoginFails(t *testing.T) {
	for what, spoil := range map[string]func(*Keeper, *login.Grant){
		"no renewal":     func(_ *Keeper, g *login.Grant) { g.Refresh = "" },
		"an odd token":   func(_ *Keeper, g *login.Grant) { g.Access = "two words that are none" },
		"a huge one":     func(_ *Keeper, g *login.Grant) { g.Access = strings.Repeat("x", 9<<10) },
		"no lock":        func(k *Keeper, _ *login.Grant) { k.launch.Login.Vault = "/dev/null/secrets" },
		"broken leases":  func(k *Keeper, _ *login.Grant) { _ = os.WriteFile(k.dir.Leases(), []byte("{"), 0o600) },
		"no place":       func(k *Keeper, _ *login.Grant) { _ = os.WriteFile(filepath.Join(k.dir.Dir, "login"), nil, 0o600) },
		"an old gateway": func(k *Keeper, _ *login.Grant) { k.gateway = refusing{k.gateway} },
		"too many":       func(k *Keeper, _ *login.Grant) { k.logins = maxLogins },
	} {
		t.Run(what, func(t *testing.T) {
			k, g := keeps(t)
			tokens := grant(1)
			spoil(k, &tokens)
			before, _ := os.ReadFile(k.dir.Leases())
			if l, _, err := k.keepLogin(tokens); err == nil || l != nil {
				t.Errorf("%+v", l)
			} else if text, _ := json.Marshal(err.Error()); strings.Contains(string(text), "REAL") {
				t.Errorf("%s", text)
			}
			if after, _ := os.ReadFile(k.dir.Leases()); string(after) != string(before) {
				t.Errorf("the leases are %s", after)
			}
			if names, _ := filepath.Glob(filepath.Join(k.dir.Dir, "login", "*")); len(names) > 0 {
				t.Errorf("there are %v", names)
			}
			if got := g.holds(); got != "a=one" {
				t.Errorf("in force is %s", got)
			}
		})
	}
}

// Logins that come at once are kept one after the other, and those that fail do not count.
func TestKeepLoginAtOnce(t *testing.T) {
	k, _ := keeps(t)
	var wg sync.WaitGroup
	for i := range 2 * maxLogins {
		wg.Go(func() {
			odd := grant(i)
			odd.Refresh = ""
			if _, _, err := k.keepLogin(odd); err == nil {
				t.Error("one without a renewal is kept")
			}
		})
	}
	wg.Wait()
	for i := range 4 {
		wg.Go(func() {
			if _, _, err := k.keepLogin(grant(i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// A sandbox that may log in no more does not touch the lock of the others.
func TestKeepLoginWithoutLock(t *testing.T) {
	k, _ := keeps(t)
	k.logins = maxLogins
	if _, _, err := k.keepLogin(grant(1)); err == nil {
		t.Error("one is kept")
	}
	if _, err := os.Stat(k.launch.Login.Vault); !os.IsNotExist(err) {
		t.Errorf("the vault was opened: %v", err)
	}
}

// refusing is a gateway that takes no login.
type refusing struct{ Gateway }

func (g refusing) SetLoans(loans []wire.Loan) error {
	for _, l := range loans {
		if l.Login != nil && !l.Taken {
			return errors.New("it takes none")
		}
	}
	return g.Gateway.SetLoans(loans)
}
