package engine

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/login"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// A login made inside is lent again at every start, is listed, goes to no other sandbox, and
// ends with its lease.
func TestCaptured(t *testing.T) {
	e, _, said := signedIn(t)
	a := claude(t, e)
	sb := wish(t.TempDir())
	sb.Agent = "claude"
	must(t, e.Create(here, sb))
	if how := e.loginInside(sb); how == nil || how.Agent != "claude" || how.How.Lock || how.How.Capture == nil {
		t.Fatalf("%+v", how)
	}
	l, err := vault.NewLease(&vault.Secret{Name: "claude-login@box", Service: "claude"}, sb.ID, vault.Terms{Env: []string{}}, []byte(oauthAccess), time.Now())
	must(t, err)
	l.Captured, l.Renewal = "claude", "sk-ant-ort01-PLACEHOLDER"
	dir := e.Store.Sandbox(sb.ID)
	_, err = login.File{Path: dir.Login(l.ID), How: *a.Login}.Create(login.Grant{Access: oauthAccess, Refresh: oauthRefresh, Lifetime: time.Hour}, time.Now())
	must(t, err)
	must(t, vault.WriteLeases(dir.Leases(), []spec.Lease{l}))

	n := e.lending(here, sb)
	if len(n.unlent) != 0 || len(n.files) != 0 || len(n.loans) != 1 || string(n.loans[0].Value) != oauthAccess || !n.loans[0].Login.Inside || n.loans[0].Login.Path != dir.Login(l.ID) {
		t.Errorf("%+v", n)
	}
	list := e.Captured([]spec.Lease{l})
	if len(list) != 1 || list[0].Name != "claude-login@box" || list[0].Service != "claude" || list[0].UpdatedAt.IsZero() || list[0].Source.String() != "login inside: "+dir.Login(l.ID) {
		t.Errorf("%+v", list)
	}
	if e.NeverLent(sb) {
		t.Error("it is taken for one without a credential")
	}

	other := wish(t.TempDir())
	other.Name = "other"
	must(t, e.Create(here, other))
	e.lendAgain(here, sb, other, true)
	if leases, err := e.Leases(other); err != nil || len(leases) != 0 || !strings.Contains((*said)[len(*said)-1], "stays with") {
		t.Errorf("%+v, %v, said %q", leases, err, *said)
	}
	if _, err := e.Lend(here, other, "claude-login@box", vault.Terms{}); err == nil {
		t.Error("it is lent to another")
	}

	must(t, os.WriteFile(dir.Login(l.ID)+".bothy", nil, 0o600))
	must(t, e.RemoveSecret(here, "claude-login@box"))
	tokenless(t, dir)
	if leases, err := e.Leases(sb); err != nil || len(leases) != 0 {
		t.Errorf("%+v, %v", leases, err)
	}
	if err := e.RemoveSecret(here, "claude-login@box"); err == nil {
		t.Error("it is removed twice")
	}
	// What has no lease goes at the next start, and with leases that cannot be read all do.
	must(t, os.WriteFile(dir.Login("killed"), nil, 0o600))
	e.lending(here, sb)
	tokenless(t, dir)
	must(t, os.WriteFile(dir.Leases(), []byte("{"), 0o600))
	must(t, os.WriteFile(dir.Login(l.ID), nil, 0o600))
	e.lending(here, sb)
	if _, err := os.Stat(dir.Login(l.ID)); err != nil {
		t.Errorf("a start with leases that cannot be read: %v", err)
	}
	if _, err := e.Revoke(here, sb, func(*spec.Lease) bool { return false }); err == nil {
		t.Error("nobody hears that the leases cannot be read")
	}
	tokenless(t, dir)
	// A login of the host is none of it.
	sb.Mock = &spec.Mock{}
	if e.loginInside(sb) != nil {
		t.Error("a model that is played has logins")
	}
}

// tokenless wants nothing of a login in a sandbox's directory.
func tokenless(t *testing.T, dir store.Sandbox) {
	t.Helper()
	if left, err := os.ReadDir(dir.Logins()); err != nil || len(left) > 0 {
		t.Errorf("there are %v, %v", left, err)
	}
}
