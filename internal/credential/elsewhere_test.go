package credential

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/credential/credentialtest"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

const bearer = "tok-CANARYCANARYCANARYCANARY0123456789"

// TestBearerOfEnvironment checks that a bearer token in the environment is lent as one, and as a
// key or a login if its value has the shape of one.
func TestBearerOfEnvironment(t *testing.T) {
	for value, want := range map[string]struct {
		variable string
		place    spec.PlaceKind
	}{
		bearer:                                {"ANTHROPIC_AUTH_TOKEN", spec.PlaceBearer},
		oauthAccess:                           {"CLAUDE_CODE_OAUTH_TOKEN", spec.PlaceBearer},
		"sk-ant-api03-CANARYCANARY0123456789": {"ANTHROPIC_API_KEY", spec.PlaceHeader},
	} {
		e, path, said := signedIn(t)
		must(t, os.Remove(path))
		t.Setenv("ANTHROPIC_AUTH_TOKEN", value)
		t.Setenv("ANTHROPIC_BASE_URL", "https://api.anthropic.com/")
		a := claude(t, e)
		secret, err := e.SecretFor(here, a)
		must(t, err)
		if secret != "anthropic-token" || len(*said) != 1 || !strings.HasPrefix((*said)[0], "$ANTHROPIC_AUTH_TOKEN is lent") {
			t.Fatalf("%q, said %q", secret, *said)
		}
		sb := wish(t.TempDir())
		must(t, e.Create(t.Context(), sb))
		l, err := e.LendCredential(here, sb, a, secret, vault.Terms{})
		must(t, err)
		if !slices.Equal(l.Hosts, []string{"api.anthropic.com:443"}) || l.Place.Kind != want.place || !slices.Equal(l.Env, []string{want.variable}) || strings.Contains(l.Placeholder, "CANARY") {
			t.Errorf("%+v", l)
		}
		if n := e.ForStart(here, sb); len(n.Loans) != 1 || string(n.Loans[0].Value) != value {
			t.Errorf("%+v", n)
		}
		credentialtest.NowhereIn(t, e.Store.Path(), "CANARY")
	}
}

// TestBearerOfSettings checks that a bearer token in the agent's settings is lent as one.
func TestBearerOfSettings(t *testing.T) {
	e, path, _ := signedIn(t)
	must(t, os.Remove(path))
	credentialtest.PutHome(t, ".claude/settings.json", `{"env":{"ANTHROPIC_AUTH_TOKEN":"`+bearer+`"}}`, 0o600)
	secret, err := e.SecretFor(here, claude(t, e))
	if err != nil || secret != "claude-anthropic-token-key" {
		t.Fatalf("%q, %v", secret, err)
	}
	sb := wish(t.TempDir())
	must(t, e.Create(t.Context(), sb))
	l, err := e.LendCredential(here, sb, claude(t, e), secret, vault.Terms{})
	if err != nil || l.Place.Kind != spec.PlaceBearer || !slices.Equal(l.Env, []string{"ANTHROPIC_AUTH_TOKEN"}) {
		t.Errorf("%+v, %v", l, err)
	}
}

// TestSeveralVariables checks that the user is told which of several variables is lent, and which
// is not.
func TestSeveralVariables(t *testing.T) {
	e, path, said := signedIn(t)
	must(t, os.Remove(path))
	t.Setenv("ANTHROPIC_API_KEY", "sk-ant-api03-CANARYCANARY0123456789")
	t.Setenv("ANTHROPIC_AUTH_TOKEN", bearer)
	c, err := e.Find(claude(t, e))
	if err != nil || c.Secret != "anthropic" || c.Besides != "; not that of $ANTHROPIC_AUTH_TOKEN" {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := e.SecretFor(here, claude(t, e)); err != nil || len(*said) != 1 || !strings.HasSuffix((*said)[0], "; not that of $ANTHROPIC_AUTH_TOKEN") {
		t.Errorf("%v, said %q", err, *said)
	}
}

// TestVariableBeforeLogin checks that a variable counts before the login, and that the user is told
// so each time: another account may pay for the login.
func TestVariableBeforeLogin(t *testing.T) {
	e, path, said := signedIn(t)
	t.Setenv("ANTHROPIC_API_KEY", "sk-ant-api03-CANARYCANARY0123456789")
	for range 2 {
		*said = nil
		want := "; not your login " + path
		if c, err := e.Find(claude(t, e)); err != nil || c.Secret != "anthropic" || c.Besides != want {
			t.Errorf("%+v, %v", c, err)
		}
		if _, err := e.SecretFor(here, claude(t, e)); err != nil || len(*said) != 1 || !strings.HasSuffix((*said)[0], want) {
			t.Errorf("%v, said %q", err, *said)
		}
	}
	t.Setenv("ANTHROPIC_AUTH_TOKEN", bearer)
	if c, err := e.Find(claude(t, e)); err != nil || c.Besides != "; not that of $ANTHROPIC_AUTH_TOKEN, nor your login "+path {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestRefusedKey checks that a key that the user told the agent not to use is lent only by its
// name, whether or not it is a secret by now.
func TestRefusedKey(t *testing.T) {
	e, path, said := signedIn(t)
	const key = "sk-ant-api03-CANARYCANARY0123456789"
	t.Setenv("ANTHROPIC_API_KEY", key)
	if secret, err := e.SecretFor(here, claude(t, e)); err != nil || secret != "anthropic" {
		t.Fatalf("%q, %v", secret, err)
	}
	credentialtest.PutHome(t, ".claude.json", `{"customApiKeyResponses":{"approved":["other"],"rejected":["other","`+key[len(key)-20:]+`"]}}`, 0o600)
	for _, known := range []bool{true, false} {
		if secret, err := e.SecretFor(here, claude(t, e)); err != nil || secret != "claude-login" {
			t.Errorf("known %v: %q, %v", known, secret, err)
		}
		if known {
			must(t, e.RemoveSecret(here, "anthropic"))
		}
	}
	home := os.Getenv("HOME") // as for a user who keeps such files elsewhere
	must(t, os.Rename(filepath.Join(home, ".claude.json"), filepath.Join(home, "claude.json")))
	must(t, os.Symlink("claude.json", filepath.Join(home, ".claude.json")))
	if secret, err := e.SecretFor(here, claude(t, e)); err != nil || secret != "claude-login" {
		t.Errorf("by a link: %q, %v", secret, err)
	}
	must(t, os.Remove(path))
	*said = nil
	secret, err := e.SecretFor(here, claude(t, e))
	if err != nil || secret != "" || len(*said) != 1 || !strings.HasPrefix((*said)[0], "$ANTHROPIC_API_KEY of your environment is not lent: you told Claude Code on this host not to use it") {
		t.Errorf("%q, %v, said %q", secret, err, *said)
	}
	t.Setenv("ANTHROPIC_API_KEY", key+"x")
	if c, err := e.Find(claude(t, e)); err != nil || c.Secret != "anthropic" {
		t.Errorf("another key: %+v, %v", c, err)
	}
}

// TestVariableThatBecameSecret checks that the choice does not depend on the order in which variables
// became secrets, and that the user is told which are passed over.
func TestVariableThatBecameSecret(t *testing.T) {
	e, path, said := signedIn(t)
	must(t, os.Remove(path))
	t.Setenv("ANTHROPIC_API_KEY", "sk-ant-api03-CANARYCANARY0123456789")
	if secret, err := e.SecretFor(here, claude(t, e)); err != nil || secret != "anthropic" {
		t.Fatalf("%q, %v", secret, err)
	}
	t.Setenv("CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat01-CANARYCANARY0123456789")
	for range 2 {
		*said = nil
		secret, err := e.SecretFor(here, claude(t, e))
		if err != nil || secret != "claude" || len(*said) != 1 || !strings.HasSuffix((*said)[0], "; not that of $ANTHROPIC_API_KEY") {
			t.Errorf("%q, %v, said %q", secret, err, *said)
		}
	}
	*said = nil
	t.Setenv("ANTHROPIC_API_KEY", "")
	if secret, err := e.SecretFor(here, claude(t, e)); err != nil || secret != "claude" || len(*said) != 0 {
		t.Errorf("%q, %v, said %q", secret, err, *said)
	}
}

// TestElsewhere checks that a credential beside the name of another server is not lent for the
// servers of the agent's services, and that a login is.
func TestElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		agent string
		set   func(t *testing.T)
		where string // and why; a login is there where that is meant
	}{
		"a token":         {"claude", func(t *testing.T) { t.Setenv("ANTHROPIC_AUTH_TOKEN", bearer) }, "$ANTHROPIC_AUTH_TOKEN of your environment: gateway.example:8443, which $ANTHROPIC_BASE_URL names"},
		"a key":           {"claude", func(t *testing.T) { t.Setenv("ANTHROPIC_API_KEY", bearer) }, "$ANTHROPIC_API_KEY of your environment: gateway.example:8443, which $ANTHROPIC_BASE_URL names"},
		"one of Google's": {"gemini", func(t *testing.T) { t.Setenv("GEMINI_API_KEY", bearer) }, "$GEMINI_API_KEY of your environment: gateway.example:8443, which $GOOGLE_GEMINI_BASE_URL names"},
		"one of a file":   {"gemini", func(t *testing.T) { credentialtest.PutHome(t, ".env", "GEMINI_API_KEY="+bearer, 0o600) }, "the key in HOME/.env: gateway.example:8443, which $GOOGLE_GEMINI_BASE_URL names"},
		"gh's":            {"copilot", func(t *testing.T) { t.Setenv("GH_TOKEN", ofGitHub) }, "the token of github in $GH_TOKEN: gateway.example:8443, which $GH_HOST names"},
		"that of settings": {"claude", func(t *testing.T) {
			t.Setenv("ANTHROPIC_BASE_URL", "")
			credentialtest.PutHome(t, ".claude/settings.json", `{"env":{"ANTHROPIC_AUTH_TOKEN":"`+bearer+`","ANTHROPIC_BASE_URL":"http://me:CANARY@localhost:4000/CANARY"}}`, 0o600)
		}, "the key in HOME/.claude/settings.json: localhost:4000, which HOME/.claude/settings.json names"},
		"that of .env": {"gemini", func(t *testing.T) {
			t.Setenv("GOOGLE_GEMINI_BASE_URL", "")
			credentialtest.PutHome(t, ".env", "GEMINI_API_KEY="+bearer+"\nGOOGLE_GEMINI_BASE_URL=http://localhost:4000", 0o600)
		}, "the key in HOME/.env: localhost:4000, which HOME/.env names"},
		"that of settings elsewhere": {"claude", func(t *testing.T) {
			t.Setenv("ANTHROPIC_BASE_URL", "https://api.anthropic.com")
			t.Setenv("ANTHROPIC_API_KEY", bearer)
			credentialtest.PutHome(t, "dotfiles.json", `{"env":{"ANTHROPIC_BASE_URL":"http://localhost:4000"}}`, 0o600)
			must(t, os.MkdirAll(filepath.Join(os.Getenv("HOME"), ".claude"), 0o700))
			must(t, os.Symlink("../dotfiles.json", filepath.Join(os.Getenv("HOME"), ".claude/settings.json")))
		}, "$ANTHROPIC_API_KEY of your environment: localhost:4000, which HOME/.claude/settings.json names"},
		"that of an old file": {"claude", func(t *testing.T) {
			t.Setenv("ANTHROPIC_BASE_URL", "")
			t.Setenv("ANTHROPIC_API_KEY", bearer)
			credentialtest.PutHome(t, ".claude.json", `{"env":{"ANTHROPIC_BASE_URL":"http://localhost:4000"}}`, 0o600)
		}, "$ANTHROPIC_API_KEY of your environment: localhost:4000, which HOME/.claude.json names"},
		"opencode's key":   {"opencode", func(t *testing.T) { t.Setenv("ANTHROPIC_API_KEY", bearer) }, "$ANTHROPIC_API_KEY of your environment: gateway.example:8443, which $ANTHROPIC_BASE_URL names"},
		"opencode's other": {"opencode", func(t *testing.T) { t.Setenv("OPENAI_API_KEY", bearer) }, "$OPENAI_API_KEY of your environment: gateway.example:8443, which $OPENAI_BASE_URL names"},
		"opencode's own": {"opencode", func(t *testing.T) {
			credentialtest.PutHome(t, ".local/share/opencode/auth.json", `{"anthropic":{"type":"api","key":"`+bearer+`"}}`, 0o600)
		}, "the key in HOME/.local/share/opencode/auth.json: gateway.example:8443, which $ANTHROPIC_BASE_URL names"},
		"opencode's settings": {"opencode", func(t *testing.T) {
			t.Setenv("ANTHROPIC_BASE_URL", "")
			t.Setenv("ANTHROPIC_API_KEY", bearer)
			credentialtest.PutHome(t, ".config/opencode/opencode.jsonc", "{// CANARY\n\"provider\":{\"anthropic\":{\"options\":{\"baseURL\":\"http://localhost:4000/v1\"},},}}", 0o644)
		}, "$ANTHROPIC_API_KEY of your environment: localhost:4000, which HOME/.config/opencode/opencode.jsonc names"},
		"opencode's settings by another name": {"opencode", func(t *testing.T) {
			t.Setenv("GEMINI_API_KEY", bearer)
			t.Setenv("XDG_CONFIG_HOME", filepath.Join(os.Getenv("HOME"), "xdg"))
			credentialtest.PutHome(t, "xdg/opencode/config.json", `{"provider":{"google":{"api":"http://localhost:4000/v1"}}}`, 0o644)
		}, "$GEMINI_API_KEY of your environment: localhost:4000, which HOME/xdg/opencode/config.json names"},
		"codex's key": {"codex", func(t *testing.T) { t.Setenv("OPENAI_API_KEY", bearer) }, "$OPENAI_API_KEY of your environment: gateway.example:8443, which $OPENAI_BASE_URL names"},
		"codex's settings": {"codex", func(t *testing.T) {
			t.Setenv("OPENAI_BASE_URL", "")
			credentialtest.PutHome(t, ".codex/auth.json", `{"OPENAI_API_KEY":"`+bearer+`"}`, 0o600)
			credentialtest.PutHome(t, ".codex/config.toml", "openai_base_url = 'http://localhost:4000/v1'\n", 0o644)
		}, "the key in HOME/.codex/auth.json: localhost:4000, which HOME/.codex/config.toml names"},
		"codex's provider": {"codex", func(t *testing.T) {
			t.Setenv("OPENAI_BASE_URL", "")
			t.Setenv("OPENAI_API_KEY", bearer)
			credentialtest.PutHome(t, ".codex/config.toml", "model_provider = \"corp\"\n[model_providers.corp]\nbase_url = \"https://CANARY\"\nenv_key = \"OPENAI_API_KEY\"\n", 0o644)
		}, "$OPENAI_API_KEY of your environment: corp, which HOME/.codex/config.toml names"},
	} {
		t.Run(name, func(t *testing.T) {
			e, path, said := signedIn(t)
			for _, v := range []string{"ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL", "OPENAI_BASE_URL"} {
				t.Setenv(v, "https://me:CANARY@Gateway.example:8443/v1")
			}
			t.Setenv("GH_HOST", "gateway.example:8443")
			c.set(t)
			a, err := e.Agents.Find(c.agent)
			must(t, err)
			if a.Name == "claude" {
				if got, err := e.Find(a); err != nil || got.Secret != "claude-login" {
					t.Errorf("with a login: %+v, %v", got, err)
				}
			}
			must(t, os.Remove(path))
			where, why, _ := strings.Cut(strings.ReplaceAll(c.where, "HOME", os.Getenv("HOME")), ": ")
			got, err := e.Find(a)
			if err != nil || got.Secret != "" || got.Where != where || !strings.HasPrefix(got.Unfit, "it is for "+why+";") || strings.Contains(got.Unfit, "CANARY") {
				t.Errorf("%+v, %v", got, err)
			}
			if secret, err := e.SecretFor(here, a); err != nil || secret != "" || len(*said) != 1 {
				t.Errorf("%q, %v, said %q", secret, err, *said)
			}
			if have, err := e.Secrets(); err != nil || len(have) != 0 {
				t.Errorf("%+v, %v", have, err)
			}
		})
	}
}

// TestElsewhereOfServices checks that a variable with the name of another server concerns one
// service of several.
func TestElsewhereOfServices(t *testing.T) {
	e, _, _ := signedIn(t)
	t.Setenv("ANTHROPIC_API_KEY", "sk-ant-api03-CANARYCANARY0123456789")
	t.Setenv("ANTHROPIC_BASE_URL", "https://gateway.example")
	t.Setenv("OPENAI_API_KEY", bearer)
	a, err := e.Agents.Find("opencode")
	must(t, err)
	if c, err := e.Find(a); err != nil || c.Secret != "openai" || c.Besides != "; not that of $ANTHROPIC_API_KEY" {
		t.Errorf("%+v, %v", c, err)
	}
	for service, want := range map[string]string{"anthropic": "gateway.example", "openai": "", "openrouter": "", "github": ""} {
		if why, err := e.Elsewhere(service); err != nil || (why == "") != (want == "") || !strings.Contains(why, want) {
			t.Errorf("%s: %q, %v", service, why, err)
		}
	}
}

// TestElsewhereOfMachine checks that files for the whole machine count.
func TestElsewhereOfMachine(t *testing.T) {
	e, _, _ := signedIn(t)
	own, etc := t.TempDir(), t.TempDir()
	e.Agents = agent.NewCatalog(own)
	must(t, os.WriteFile(filepath.Join(own, "mine.yaml"), []byte("version: 1\nname: mine\ntitle: Mine\nprogram: mine\ncredentials: [openai]\n"+
		"elsewhere: [{own: [api.openai.com], file: .mine.json, key: /url, also: ["+etc+"/*.json]}]\n"), 0o600))
	t.Setenv("OPENAI_API_KEY", bearer)
	a, err := e.Agents.Find("mine")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(etc, "10.json"), []byte(`{"url":"https://api.openai.com/v1"}`), 0o644))
	if c, err := e.Find(a); err != nil || c.Secret != "openai" {
		t.Errorf("%+v, %v", c, err)
	}
	must(t, os.WriteFile(filepath.Join(etc, "20.json"), []byte(`{"url":"https://gateway.example/v1"}`), 0o644))
	if c, err := e.Find(a); err != nil || c.Secret != "" || !strings.HasPrefix(c.Unfit, "it is for gateway.example, which "+etc+"/20.json names;") {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestElsewhereOfSecrets checks that a secret that is read from a variable is judged like the
// variable, and a stored one is not.
func TestElsewhereOfSecrets(t *testing.T) {
	e, path, _ := signedIn(t)
	must(t, os.Remove(path))
	t.Setenv("ANTHROPIC_API_KEY", "sk-ant-api03-CANARYCANARY0123456789")
	if secret, err := e.SecretFor(here, claude(t, e)); err != nil || secret != "anthropic" {
		t.Fatalf("%q, %v", secret, err)
	}
	t.Setenv("ANTHROPIC_BASE_URL", "https://gateway.example")
	if c, err := e.Find(claude(t, e)); err != nil || c.Secret != "" || !strings.Contains(c.Unfit, "it is for gateway.example,") {
		t.Errorf("%+v, %v", c, err)
	}
	must(t, e.SetSecret(here, NewSecret{Name: "claude", Source: vault.Source{Kind: vault.SourceStored}, Value: []byte(oauthAccess)}))
	if c, err := e.Find(claude(t, e)); err != nil || c.Secret != "claude" {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestElsewhereUnread checks that nothing is lent if a file that may name another server cannot be
// read.
func TestElsewhereUnread(t *testing.T) {
	e, path, _ := signedIn(t)
	must(t, os.Remove(path))
	t.Setenv("ANTHROPIC_API_KEY", "sk-ant-api03-CANARYCANARY0123456789")
	for _, text := range []string{`{"env":`, `{"env":{"ANTHROPIC_BASE_URL":["CANARY"]}}`} {
		credentialtest.PutHome(t, ".claude/settings.json", text, 0o600)
		c, err := e.Find(claude(t, e))
		if err != nil || c.Secret != "" || !strings.HasPrefix(c.Unfit, "its server is unknown: ") || strings.Contains(c.Unfit, "CANARY") {
			t.Errorf("%s: %+v, %v", text, c, err)
		}
	}
}

// TestElsewhereSince checks that a start refuses an earlier lease whose value is for another server
// by now, unless the user chose the host.
func TestElsewhereSince(t *testing.T) {
	e, path, said := signedIn(t)
	must(t, os.Remove(path))
	t.Setenv("ANTHROPIC_API_KEY", "sk-ant-api03-CANARYCANARY0123456789")
	a, sb := claude(t, e), wish(t.TempDir())
	sb.Agent = "claude"
	must(t, e.Create(t.Context(), sb))
	secret, err := e.SecretFor(here, a)
	must(t, err)
	_, err = e.LendCredential(here, sb, a, secret, vault.Terms{})
	must(t, err)
	must(t, e.SetSecret(here, NewSecret{Name: "work", Source: vault.Source{Kind: vault.SourceEnvironment, Variable: "ANTHROPIC_API_KEY"}}))
	_, err = e.Lend(here, sb, "work", vault.Terms{Hosts: []string{"gateway.example:443"}, Env: []string{}})
	must(t, err)
	if n := e.ForStart(here, sb); len(n.Unlent) != 0 || len(n.Loans) != 2 {
		t.Fatalf("before: %+v", n)
	}
	t.Setenv("ANTHROPIC_BASE_URL", "https://gateway.example")
	*said = nil
	n := e.ForStart(here, sb)
	if len(n.Unlent) != 1 || n.Unlent[0].Secret != secret || !strings.Contains(n.Unlent[0].Reason, "it is for gateway.example,") || len(*said) != 1 {
		t.Errorf("%+v, said %q", n.Unlent, *said)
	}
	for _, l := range n.Loans {
		if has := len(l.Value) > 0; has != (l.Secret == "work") {
			t.Errorf("%s has a value: %v", l.Secret, has)
		}
	}
}

func TestServerOf(t *testing.T) {
	for url, want := range map[string]string{
		"":                               "",
		"github.com":                     "github.com",
		"https://API.anthropic.com":      "api.anthropic.com",
		"https://api.anthropic.com.:443": "api.anthropic.com",
		"https://a@b:x@gw.example/v1?k":  "gw.example",
		"http://[::1]:4000/":             "[::1]:4000",
		"https://":                       "a server that is none",
		"https://a\x1b[31m.example":      "a server that is none",
		"https://evil.example#@api.anthropic.com": "evil.example",
	} {
		if got := serverOf(url); got != want {
			t.Errorf("%q: %q, and not %q", url, got, want)
		}
	}
}
