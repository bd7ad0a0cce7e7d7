package credential

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/credential/credentialtest"
	"github.com/bothy-dev/bothy/internal/oauthfile"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/internal/vault/ask"
	"github.com/bothy-dev/bothy/spec"
)

// TestCaptured checks that a login that was made inside is lent again at every start, is listed,
// goes to no other sandbox, and ends with its lease.
func TestCaptured(t *testing.T) {
	e, _, said := signedIn(t)
	sb := wish(t.TempDir())
	sb.Agent = "claude"
	must(t, e.Create(here, sb))
	if how, err := e.LoginInside(sb); err != nil || how == nil || how.Lock || how.Capture == nil {
		t.Fatalf("%+v", how)
	}
	l, err := vault.NewLease(&vault.Secret{Name: "claude-login@box", Service: "claude"}, sb.ID, vault.Terms{Env: []string{}}, []byte(oauthAccess), time.Now())
	must(t, err)
	l.Captured, l.Renewal = "claude", "sk-ant-ort01-PLACEHOLDER"
	dir := e.Store.Sandbox(sb.ID)
	keepLogin(t, e, sb, &l)

	n := e.ForStart(here, sb)
	credentialtest.NowhereIn(t, dir.Dir, oauthAccess)
	credentialtest.NowhereIn(t, dir.Dir, oauthRefresh)
	if len(n.Unlent) != 0 || len(n.files) != 0 || len(n.Loans) != 1 || string(n.Loans[0].Value) != oauthAccess || !n.Loans[0].Login.Inside || n.Loans[0].Login.Path != dir.Login(l.ID) {
		t.Errorf("%+v", n)
	}
	list := e.CapturedSecrets([]spec.Lease{l})
	if len(list) != 1 || list[0].Name != "claude-login@box" || list[0].Service != "claude" || list[0].UpdatedAt.IsZero() || list[0].Source.String() != "login inside: "+dir.Login(l.ID) {
		t.Errorf("%+v", list)
	}
	if e.NeverLent(sb) {
		t.Error("it is taken for one without a credential")
	}

	other := wish(t.TempDir())
	other.Name = "other"
	must(t, e.Create(here, other))
	e.LendAgain(here, sb, other, true)
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
	// A login without a lease goes at the next start. If the leases cannot be read, all logins go.
	must(t, os.WriteFile(dir.Login("killed"), nil, 0o600))
	e.ForStart(here, sb)
	tokenless(t, dir)
	must(t, os.WriteFile(dir.Leases(), []byte("{"), 0o600))
	must(t, os.WriteFile(dir.Login(l.ID), nil, 0o600))
	e.ForStart(here, sb)
	if _, err := os.Stat(dir.Login(l.ID)); err != nil {
		t.Errorf("a start with leases that cannot be read: %v", err)
	}
	if _, err := e.Revoke(here, sb, func(*spec.Lease) bool { return false }); err == nil {
		t.Error("unreadable leases are not reported")
	}
	tokenless(t, dir)
	// A login of the host does not count.
	sb.Mock = &spec.Mock{}
	if how, err := e.LoginInside(sb); err != nil || how != nil {
		t.Error("a model that is played has logins")
	}
}

// keepLogin keeps tokens as a keeper does.
func keepLogin(t *testing.T, e *desk, sb *spec.Sandbox, l *spec.Lease) oauthfile.File {
	t.Helper()
	must(t, e.makeFirstKey(here))
	d, err := e.vault().Read()
	must(t, err)
	f, err := e.capturedFile(sb, l)
	must(t, err)
	f.Seal, err = ask.LoginKey(here, ask.Self, d)
	must(t, err)
	_, err = f.Create(oauthfile.Grant{Access: oauthAccess, Refresh: oauthRefresh, Lifetime: time.Hour}, time.Now())
	must(t, err)
	must(t, vault.WriteLeases(e.Store.Sandbox(sb.ID).Leases(), []spec.Lease{*l}))
	return f
}

// loggedIn returns a sandbox of claude with a login that was made inside.
func loggedIn(t *testing.T) (*desk, *spec.Sandbox, oauthfile.File, *[]string) {
	t.Helper()
	e, _, said := signedIn(t)
	sb := wish(t.TempDir())
	sb.Agent = "claude"
	must(t, e.Create(here, sb))
	l, err := vault.NewLease(&vault.Secret{Name: "claude-login@box", Service: "claude"}, sb.ID, vault.Terms{Env: []string{}}, []byte(oauthAccess), time.Now())
	must(t, err)
	l.Captured, l.Renewal = "claude", "sk-ant-ort01-PLACEHOLDER"
	return e, sb, keepLogin(t, e, sb, &l), said
}

// isLent checks that the login is lent or, if why is not empty, that it is not, with a reason and a
// hint.
func isLent(t *testing.T, e *desk, sb *spec.Sandbox, why, hint string) {
	t.Helper()
	n := e.ForStart(here, sb)
	if why == "" {
		if len(n.Unlent) != 0 || len(n.Loans) != 1 || string(n.Loans[0].Value) != oauthAccess || n.Loans[0].Login.Seal == nil {
			t.Errorf("it is not lent: %+v", n)
		}
		return
	}
	if len(n.Unlent) != 1 || len(n.Loans) != 1 || n.Loans[0].Value != nil || !strings.Contains(n.Unlent[0].Reason, why) || !strings.Contains(n.Unlent[0].Hint, hint) {
		t.Errorf("%+v", n)
	}
}

const logInAgain = "bothy secret revoke claude-login@box, on the host, then log in again in the sandbox"

// TestCapturedDamaged checks that a login that is damaged, or sealed for a missing key, is not
// lent, that the user is told what to do, and that the rest of it stays until its lease ends.
func TestCapturedDamaged(t *testing.T) {
	e, sb, f, _ := loggedIn(t)
	whole, err := os.ReadFile(f.Path)
	must(t, err)
	isLent(t, e, sb, "", "")
	must(t, os.WriteFile(f.Path, whole[:100], 0o600))
	isLent(t, e, sb, "the login is damaged", logInAgain)
	must(t, os.WriteFile(f.Path, bytes.Replace(whole, []byte("-----BEGIN AGE ENCRYPTED FILE-----\\n"), []byte("-----BEGIN AGE ENCRYPTED FILE-----\\nAAAA"), 1), 0o600))
	isLent(t, e, sb, "its sealed value is corrupted", logInAgain)
	must(t, os.Remove(f.Path))
	isLent(t, e, sb, "no login exists", logInAgain)
	must(t, os.WriteFile(f.Path, whole, 0o600))
	isLent(t, e, sb, "", "")
	must(t, os.RemoveAll(e.vault().Dir))
	isLent(t, e, sb, "for another key", logInAgain)
}

// TestFirstKeyTime checks that a start waits for a limited time for a process that changes the
// secrets, and without a limit for the key.
func TestFirstKeyTime(t *testing.T) {
	usual := vaultTime
	vaultTime = time.Nanosecond
	defer func() { vaultTime = usual }()
	e := newDesk(t)
	c, err := e.vault().TryBegin(here)
	must(t, err)
	if err := e.makeFirstKey(here); err == nil || !strings.Contains(err.Error(), "another bothy changes them") {
		t.Errorf("while somebody changes them: %v", err)
	}
	c.End()
	if err := e.makeFirstKey(here); err != nil {
		t.Error(err)
	}
}

// TestCapturedLocked checks that a passphrase locks the login with the secrets.
func TestCapturedLocked(t *testing.T) {
	words := filepath.Join(t.TempDir(), "words")
	must(t, os.WriteFile(words, []byte("correct horse\n"), 0o600))
	t.Setenv(passphraseVar, words)
	e, sb, _, _ := loggedIn(t)
	if d, err := e.vault().Read(); err != nil || d.Guard != vault.GuardPassphrase {
		t.Fatalf("%+v, %v", d, err)
	}
	isLent(t, e, sb, "", "")
	must(t, os.Unsetenv(passphraseVar))
	isLent(t, e, sb, "the secrets are locked with a passphrase", "BOTHY_VAULT_PASSPHRASE_FILE")
	asked := 0
	e.Passphrase = func(bool) ([]byte, error) { asked++; return []byte("correct horse"), nil }
	isLent(t, e, sb, "", "")
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

// TestCapturedInClear checks that the next start seals a login that an earlier Bothy wrote in clear.
func TestCapturedInClear(t *testing.T) {
	e, sb, f, _ := loggedIn(t)
	plain := f
	plain.Inside = false
	must(t, os.Remove(f.Path))
	_, err := plain.Create(oauthfile.Grant{Access: oauthAccess, Refresh: oauthRefresh, Lifetime: time.Hour}, time.Now())
	must(t, err)
	must(t, os.RemoveAll(e.vault().Dir))
	for range 2 {
		isLent(t, e, sb, "", "")
		credentialtest.NowhereIn(t, e.Store.Sandbox(sb.ID).Dir, oauthAccess)
		credentialtest.NowhereIn(t, e.Store.Sandbox(sb.ID).Dir, oauthRefresh)
	}
}

// TestFirstKey checks that a start makes the key of the vault if a user may log in inside, and only
// then.
func TestFirstKey(t *testing.T) {
	e, _, said := signedIn(t)
	key := func() string {
		d, err := e.vault().Read()
		must(t, err)
		return d.Recipient
	}
	of := func(agent string) *spec.Sandbox {
		sb := wish(t.TempDir())
		sb.Agent = agent
		must(t, e.Create(here, sb))
		return sb
	}
	e.ForStart(here, of("shell"))
	e.ForStart(here, of("cursor"))
	if key() != "" {
		t.Error("there is one, for nothing")
	}
	sb := of("claude")
	must(t, os.MkdirAll(e.vault().Dir, 0o700))
	must(t, os.WriteFile(e.vault().Identity(), []byte("garbage"), 0o600))
	if n := e.ForStart(here, sb); len(n.Unlent) != 0 || len(*said) == 0 || !strings.Contains((*said)[len(*said)-1], "cannot be kept, for there is nothing to seal it with") {
		t.Errorf("%+v, said %q", n, *said)
	}
	must(t, os.Remove(e.vault().Identity()))
	e.ForStart(here, sb)
	first := key()
	e.ForStart(here, sb)
	if first == "" || key() != first {
		t.Errorf("%q, then %q", first, key())
	}
}

// tokenless checks that a sandbox's directory has nothing of a login.
func tokenless(t *testing.T, dir store.Sandbox) {
	t.Helper()
	if left, err := os.ReadDir(dir.Logins()); err != nil || len(left) > 0 {
		t.Errorf("there are %v, %v", left, err)
	}
}

// TestSeal checks that a value that is kept outside of the vault can be opened again, and only with its
// key.
func TestSeal(t *testing.T) {
	e := newDesk(t)
	sealed, err := e.Seal(here, "authority", []byte(canary))
	must(t, err)
	if strings.Contains(sealed, canary) {
		t.Error("it is in clear")
	}
	again, err := e.Seal(here, "authority", []byte(canary))
	must(t, err)
	for _, s := range []string{sealed, again} {
		if value, err := e.Open(here, "authority", s); err != nil || string(value) != canary {
			t.Errorf("%q, %v", value, err)
		}
	}
	must(t, os.RemoveAll(e.vault().Dir))
	if value, err := e.Open(here, "authority", sealed); err == nil {
		t.Errorf("without the key: %q", value)
	}
}
