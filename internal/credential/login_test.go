package credential

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/credential/credentialtest"
	"github.com/bothy-dev/bothy/internal/oauthfile"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// TestLogin checks that a login is lent as placeholders in the file where its program looks.
func TestLogin(t *testing.T) {
	e, path, said := signedIn(t)
	name, err := e.SecretFor(here, claude(t, e))
	must(t, err)
	if name != "claude-login" || len(*said) != 1 || !strings.Contains((*said)[0], path) {
		t.Fatalf("%q, said %q", name, *said)
	}
	if again, err := e.SecretFor(here, claude(t, e)); err != nil || again != name || len(*said) != 1 {
		t.Errorf("%q, %v, said %q", again, err, *said)
	}
	sb := wish(t.TempDir())
	must(t, e.Create(t.Context(), sb))
	l, err := e.Lend(here, sb, name, vault.Terms{})
	must(t, err)
	if len(l.Env) != 0 || l.Hosts[0] != "api.anthropic.com:443" || !strings.HasPrefix(l.Placeholder, "sk-ant-oat01-") || !strings.HasPrefix(l.Renewal, "sk-ant-ort01-") || len(l.Placeholder) != len(oauthAccess) {
		t.Errorf("%+v", l)
	}
	if _, err := e.Lend(here, sb, name, vault.Terms{}); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("twice: %v", err)
	}
	n := e.ForStart(here, sb)
	if len(n.Unlent) != 0 || len(n.Loans) != 1 || string(n.Loans[0].Value) != oauthAccess || string(n.Loans[0].Masked[0]) != oauthRefresh {
		t.Fatalf("%+v", n)
	}
	if o := n.Loans[0].Login; o.Path != path || o.How.Endpoint != claude(t, e).Login.Endpoint || time.Until(o.Expires) > time.Hour || time.Until(o.Expires) < 50*time.Minute {
		t.Errorf("%+v", o)
	}
	home := e.Store.Sandbox(sb.ID).Home()
	inside := filepath.Join(home, ".claude/.credentials.json")
	e.writeLogins(sb, n.files)
	text, err := os.ReadFile(inside)
	must(t, err)
	want := fmt.Sprintf(`{"claudeAiOauth":{"accessToken":%q,"expiresAt":4102444800000,"refreshToken":%q,"scopes":["user:inference"],"subscriptionType":"max"}}`+"\n", l.Placeholder, l.Renewal)
	if string(text) != want {
		t.Errorf("inside is %s", text)
	}
	if info, _ := os.Stat(inside); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	credentialtest.NowhereIn(t, e.Store.Path(), "CANARY")
}

// TestLoginInHostileHome checks that a login is written to no place outside of a home, whatever
// programs inside have made there.
func TestLoginInHostileHome(t *testing.T) {
	e, _, said := signedIn(t)
	sb := wish(t.TempDir())
	must(t, e.Create(t.Context(), sb))
	home := e.Store.Sandbox(sb.ID).Home()
	victim := filepath.Join(t.TempDir(), "victim")
	files := []loginFile{{path: ".claude/.credentials.json", text: []byte("new")}}
	for name, prepare := range map[string]func(dir string){
		"file":        func(dir string) { must(t, os.WriteFile(filepath.Join(dir, ".credentials.json"), []byte("old"), 0o600)) },
		"link":        func(dir string) { must(t, os.Symlink(victim, filepath.Join(dir, ".credentials.json"))) },
		"directory":   func(dir string) { must(t, os.MkdirAll(filepath.Join(dir, ".credentials.json/x"), 0o700)) },
		"pipe":        func(dir string) { must(t, unix.Mkfifo(filepath.Join(dir, ".credentials.json"), 0o600)) },
		"link of new": func(dir string) { must(t, os.Symlink(victim, filepath.Join(dir, ".credentials.json.new"))) },
		"new":         func(dir string) { must(t, os.MkdirAll(filepath.Join(dir, ".credentials.json.new/x"), 0o700)) },
		"parent":      func(dir string) { must(t, os.Remove(dir)); must(t, os.Symlink(filepath.Dir(victim), dir)) },
	} {
		t.Run(name, func(t *testing.T) {
			*said = nil
			dir := filepath.Join(home, ".claude")
			must(t, os.RemoveAll(dir))
			must(t, os.MkdirAll(dir, 0o700))
			prepare(dir)
			e.writeLogins(sb, files)
			text, _ := os.ReadFile(filepath.Join(home, ".claude/.credentials.json"))
			if refused := name == "parent"; refused != (len(*said) == 1) || !refused && string(text) != "new" {
				t.Errorf("%q, said %q", text, *said)
			}
			if list, _ := os.ReadDir(filepath.Dir(victim)); len(list) != 0 {
				t.Errorf("outside is %v", list)
			}
		})
	}
}

// TestBesideLogin checks that members of the file beside the login stay, and that credentials of
// the agent do not.
func TestBesideLogin(t *testing.T) {
	e, _, _ := signedIn(t)
	sb := wish(t.TempDir())
	must(t, e.Create(t.Context(), sb))
	at := filepath.Join(e.Store.Sandbox(sb.ID).Home(), ".codex/auth.json")
	must(t, os.MkdirAll(filepath.Dir(at), 0o700))
	a, err := e.Agents.Find("codex")
	must(t, err)
	const fresh = `{"tokens":{"access_token":"new"}}`
	files := []loginFile{{path: ".codex/auth.json", text: []byte(fresh), own: oauthfile.Own(*a.Login, a.Keys)}}
	for there, want := range map[string]string{
		`{"OPENAI_API_KEY":"typed","last_refresh":"x","tokens":{"access_token":"old","more":1},"mcp":{"a":[1.50,"\u003c"]}}`: `{"mcp":{"a":[1.50,"\u003c"]},"tokens":{"access_token":"new"}}` + "\n",
		`{"mcp":1,"tokens":1,"tokens":2,"mcp":2}`:                  `{"mcp":2,"tokens":{"access_token":"new"}}` + "\n",
		`{"OPENAI_API_KEY":"typed"}`:                               fresh,
		`{"mcp":` + strings.Repeat("[", 200_000):                   fresh,
		`{"mcp":"` + strings.Repeat("x", oauthfile.MaxFile) + `"}`: fresh,
		`["tokens"]`:  fresh,
		`{"mcp":1} x`: fresh,
		`null`:        fresh,
		``:            fresh,
	} {
		must(t, os.WriteFile(at, []byte(there), 0o600))
		for range 2 {
			e.writeLogins(sb, files)
			if text, err := os.ReadFile(at); err != nil || string(text) != want {
				t.Errorf("%.80s becomes %.200s, %v", there, text, err)
			}
		}
	}
}

// TestLoginComesLast checks the order: stored secrets, variables, the login.
func TestLoginComesLast(t *testing.T) {
	e, _, _ := signedIn(t)
	a := claude(t, e)
	for _, step := range []struct {
		change func()
		want   string
	}{
		{func() {}, "claude-login"},
		{func() { t.Setenv("ANTHROPIC_API_KEY", canary) }, "anthropic"},
		{func() { must(t, e.SetSecret(here, stored("claude", oauthAccess))) }, "claude"},
	} {
		step.change()
		if name, err := e.SecretFor(here, a); err != nil || name != step.want {
			t.Errorf("%q, %v; not %s", name, err, step.want)
		}
	}
}

// TestLoginRefused checks that an invalid login is not lent, and that a start says why.
func TestLoginRefused(t *testing.T) {
	e, path, said := signedIn(t)
	a := claude(t, e)
	name, err := e.SecretFor(here, a)
	must(t, err)
	sb := wish(t.TempDir())
	must(t, e.Create(t.Context(), sb))
	_, err = e.Lend(here, sb, name, vault.Terms{})
	must(t, err)
	*said = nil
	must(t, os.WriteFile(path, []byte("CANARY"), 0o600))
	if name, err := e.SecretFor(here, a); name != "" || err != nil || len(*said) != 1 || !strings.Contains((*said)[0], "not lent: read the login "+path) {
		t.Errorf("%q, %v, said %q", name, err, *said)
	}
	n := e.ForStart(here, sb)
	if len(n.Unlent) != 1 || len(n.files) != 0 || n.Loans[0].Value != nil || n.Loans[0].Login != nil || strings.Contains(n.Unlent[0].Reason, "CANARY") {
		t.Errorf("%+v", n)
	}
	must(t, os.Remove(path))
	*said = nil
	if name, err := e.SecretFor(here, a); name != "" || err != nil || len(*said) != 0 {
		t.Errorf("%q, %v, said %q", name, err, *said)
	}
	for agentName, want := range map[string]string{"claude": "no login exists", "opencode": "does not say where", "nobody": "nobody"} {
		err := e.SetSecret(here, NewSecret{Name: "x", Source: vault.Source{Kind: vault.SourceLogin, Agent: agentName}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", agentName, err)
		}
	}
}

// TestLoginOfJWTs checks that placeholders for tokens of codex have the claims that it needs, and
// no other.
func TestLoginOfJWTs(t *testing.T) {
	e, _, _ := signedIn(t)
	a, err := e.Agents.Find("codex")
	must(t, err)
	home := os.Getenv("HOME")
	// {"exp":1900000000,"email":"me@example.com","https://api.openai.com/auth":{"chatgpt_account_id":"acc","chatgpt_plan_type":"pro","chatgpt_user_id":"CANARY"}}
	const token = "eyJhbGciOiJSUzI1NiJ9." +
		"eyJleHAiOjE5MDAwMDAwMDAsImVtYWlsIjoibWVAZXhhbXBsZS5jb20iLCJodHRwczovL2FwaS5vcGVuYWkuY29tL2F1dGgiOnsiY2hhdGdwdF9hY2NvdW50X2lkIjoiYWNjIiwiY2hhdGdwdF9wbGFuX3R5cGUiOiJwcm8iLCJjaGF0Z3B0X3VzZXJfaWQiOiJDQU5BUlkifX0" +
		".CANARYCANARYCANARYCANARY"
	must(t, os.MkdirAll(filepath.Join(home, ".codex"), 0o700))
	text := fmt.Sprintf(`{"auth_mode":"chatgpt","OPENAI_API_KEY":"sk-CANARY","tokens":{"access_token":%q,"id_token":%q,"refresh_token":"rt_CANARYCANARYCANARY","account_id":"acc"},"last_refresh":"2026-01-01T00:00:00Z"}`, token, token)
	must(t, os.WriteFile(filepath.Join(home, ".codex/auth.json"), []byte(text), 0o600))
	name, err := e.SecretFor(here, a)
	must(t, err)
	sb := wish(t.TempDir())
	must(t, e.Create(t.Context(), sb))
	l, err := e.Lend(here, sb, name, vault.Terms{})
	must(t, err)
	n := e.ForStart(here, sb)
	if len(n.Unlent) != 0 || l.Hosts[0] != "chatgpt.com:443" || n.Loans[0].Login.Expires.Unix() != 1900000000 {
		t.Errorf("%+v %+v", l, n.Unlent)
	}
	var inside struct {
		Mode   string  `json:"auth_mode"`
		Key    *string `json:"OPENAI_API_KEY"`
		Tokens struct {
			Access  string `json:"access_token"`
			ID      string `json:"id_token"`
			Refresh string `json:"refresh_token"`
			Account string `json:"account_id"`
		}
		Last time.Time `json:"last_refresh"`
	}
	must(t, json.Unmarshal(n.files[0].text, &inside))
	if inside.Mode != "chatgpt" || inside.Key != nil || inside.Tokens.Access != l.Placeholder || inside.Tokens.Refresh != l.Renewal || inside.Tokens.Account != "acc" || inside.Last.Before(time.Now()) {
		t.Errorf("%s", string(n.files[0].text))
	}
	if strings.Count(inside.Tokens.ID, ".") != 2 || strings.Contains(string(n.files[0].text), "CANARY") {
		t.Errorf("%s", string(n.files[0].text))
	}
	credentialtest.NowhereIn(t, e.Store.Path(), "CANARY")
}
