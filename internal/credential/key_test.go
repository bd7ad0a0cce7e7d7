package credential

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/credential/credentialtest"
	"github.com/bothy-dev/bothy/internal/vault"
)

// TestGivenKeys checks that keys are found where agents keep them, and lent to that agent alone.
func TestGivenKeys(t *testing.T) {
	const key = "sk-ant-api03-CANARYCANARYCANARYCANARY0123456789"
	auth := `{"github-copilot":{"type":"oauth","refresh":"x"},"openrouter":{"type":"api","key":"@"}}`
	for name, c := range map[string]struct{ agent, file, text, secret, service, variable string }{
		"codex login --with-api-key": {"codex", ".codex/auth.json", `{"OPENAI_API_KEY":"@"}`, "codex-openai-key", "openai", ""},
		"codex, with a mode":         {"codex", ".codex/auth.json", `{"auth_mode":"apikey","OPENAI_API_KEY":"@","tokens":null}`, "codex-openai-key", "openai", ""},
		"claude, by the Console":     {"claude", ".claude.json", `{"numStartups":3,"primaryApiKey":"@"}`, "claude-anthropic-key", "anthropic", ""},
		"claude, by its settings":    {"claude", ".claude/settings.json", `{"env":{"ANTHROPIC_API_KEY":"@"}}`, "claude-anthropic-key", "anthropic", ""},
		"gemini, by its variables":   {"gemini", ".gemini/.env", "# mine\nexport GEMINI_API_KEY=\"@\"\n", "gemini-google-key", "google", ""},
		"opencode auth login":        {"opencode", ".local/share/opencode/auth.json", auth, "opencode-openrouter-key", "openrouter", ""},
		"opencode, with XDG's home":  {"opencode", "data/opencode/auth.json", auth, "opencode-openrouter-key", "openrouter", "XDG_DATA_HOME=data"},
		"gemini, of the home":        {"gemini", ".env", "GEMINI_API_KEY=@", "gemini-google-key", "google", ""},
		"gemini, with a home":        {"gemini", "g/.gemini/.env", "GEMINI_API_KEY=@", "gemini-google-key", "google", "GEMINI_CLI_HOME=g"},
		"gemini, of that home":       {"gemini", "g/.env", "GOOGLE_API_KEY=@", "gemini-google-key", "google", "GEMINI_CLI_HOME=g"},
		"claude, with a directory":   {"claude", "c/settings.json", `{"env":{"ANTHROPIC_API_KEY":"@"}}`, "claude-anthropic-key", "anthropic", "CLAUDE_CONFIG_DIR=c"},
		"copilot, without a keyring": {"copilot", ".copilot/config.json", "// This file is managed automatically.\n" + `{"copilotTokens":{"https://github.com:me":"@","https://ghe.example:me":"x"}}`, "copilot-copilot-key", "copilot", ""},
		"codex, with a directory":    {"codex", "c/auth.json", `{"OPENAI_API_KEY":"@"}`, "codex-openai-key", "openai", "CODEX_HOME=c"},
	} {
		t.Run(name, func(t *testing.T) {
			e, path, said := signedIn(t)
			must(t, os.Remove(path))
			if variable, dir, ok := strings.Cut(c.variable, "="); ok {
				t.Setenv(variable, filepath.Join(os.Getenv("HOME"), dir))
			}
			a, err := e.Agents.Find(c.agent)
			must(t, err)
			if none, err := e.Find(a); err != nil || none.Secret != "" || none.Unfit != "" {
				t.Fatalf("before there is any: %+v, %v", none, err)
			}
			file := filepath.Join(os.Getenv("HOME"), c.file)
			must(t, os.MkdirAll(filepath.Dir(file), 0o700))
			must(t, os.WriteFile(file, []byte(strings.ReplaceAll(c.text, "@", key)), 0o600))
			secret, err := e.SecretFor(here, a)
			must(t, err)
			if secret != c.secret || len(*said) != 1 || !strings.Contains((*said)[0], file) {
				t.Fatalf("%q, said %q", secret, *said)
			}
			if again, err := e.SecretFor(here, a); err != nil || again != secret || len(*said) != 1 {
				t.Errorf("once more: %q, %v, said %q", again, err, *said)
			}
			sb := wish(t.TempDir())
			must(t, e.Create(t.Context(), sb))
			l, err := e.LendCredential(here, sb, a, secret, vault.Terms{})
			must(t, err)
			if s := vault.FindService(c.service); l.Hosts[0] != s.Hosts[0] || l.Env[0] != s.Env[0] {
				t.Errorf("%+v", l)
			}
			if n := e.ForStart(here, sb); len(n.Unlent) != 0 || len(n.Loans) != 1 || string(n.Loans[0].Value) != key {
				t.Errorf("%+v", n)
			}
			credentialtest.NowhereIn(t, e.Store.Path(), "CANARY")

			must(t, os.Remove(file))
			if n := e.ForStart(here, sb); len(n.Unlent) != 1 || !strings.Contains(n.Unlent[0].Reason, file+" no longer has a key") {
				t.Errorf("%+v", n.Unlent)
			}
		})
	}
}

// TestGivenKeyIsLast checks that a login counts before a key, that a key is lent to no other agent,
// and that the user is told of one that cannot be lent unless another can.
func TestGivenKeyIsLast(t *testing.T) {
	e, path, _ := signedIn(t)
	home := os.Getenv("HOME")
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		file := filepath.Join(home, name)
		must(t, os.MkdirAll(filepath.Dir(file), 0o700))
		must(t, os.WriteFile(file, []byte(text), mode))
		must(t, os.Chmod(file, mode))
	}
	write(".claude.json", `{"primaryApiKey":"sk-ant-api03-CANARYCANARY0123456789"}`, 0o644)
	if c, err := e.Find(claude(t, e)); err != nil || c.Secret != "claude-login" {
		t.Errorf("%+v, %v", c, err)
	}
	must(t, os.Remove(path))
	if c, err := e.Find(claude(t, e)); err != nil || c.Secret != "" || !strings.Contains(c.Unfit, "chmod 600") {
		t.Errorf("%+v, %v", c, err)
	}
	write(".claude.json", `{"primaryApiKey":`, 0o600)
	if c, err := e.Find(claude(t, e)); err != nil || !strings.HasPrefix(c.Where, "a key that may be in ") || !strings.HasSuffix(c.Where, ".claude.json") {
		t.Errorf("%+v, %v", c, err)
	}
	write(".claude/settings.json", `{"env":{"ANTHROPIC_API_KEY":"sk-ant-api03-CANARYCANARY0123456789"}}`, 0o600)
	if c, err := e.Find(claude(t, e)); err != nil || c.Secret != "" { // it may name another server
		t.Errorf("%+v, %v", c, err)
	}
	write(".claude.json", `{}`, 0o600)
	secret, err := e.SecretFor(here, claude(t, e))
	if err != nil || secret != "claude-anthropic-key" {
		t.Errorf("%q, %v", secret, err)
	}
	opencode, err := agent.NewCatalog("").Find("opencode")
	must(t, err)
	if c, err := e.Find(opencode); err != nil || c.Secret != "" {
		t.Errorf("another's: %+v, %v", c, err)
	}
	must(t, e.RemoveSecret(here, secret))
	must(t, e.SetSecret(here, NewSecret{Name: secret, Service: "github", Source: vault.Source{Kind: vault.SourceEnvironment, Variable: "X"}}))
	if c, err := e.Find(claude(t, e)); err != nil || c.Secret != "" || c.Unfit == "" {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestHelperIsTold checks that a command that prints keys is not run, and that the user is told how
// to use it.
func TestHelperIsTold(t *testing.T) {
	e, path, said := signedIn(t)
	must(t, os.Remove(path))
	made := filepath.Join(t.TempDir(), "made")
	must(t, os.WriteFile(filepath.Join(filepath.Dir(path), "settings.json"), []byte(`{"apiKeyHelper":"touch `+made+`; echo sk-ant-CANARY"}`), 0o644))
	c, err := e.Find(claude(t, e))
	if err != nil || c.Secret != "" || !strings.Contains(c.Where, "apiKeyHelper in "+filepath.Dir(path)) || !strings.Contains(c.Unfit, "bothy secret set anthropic --command") {
		t.Errorf("%+v, %v", c, err)
	}
	if secret, err := e.SecretFor(here, claude(t, e)); secret != "" || err != nil || len(*said) != 1 || strings.Contains((*said)[0], "CANARY") {
		t.Errorf("%q, %v, said %q", secret, err, *said)
	}
	if _, err := os.Lstat(made); err == nil {
		t.Error("it was run")
	}
}

// TestSeveralKeys checks that the user is told which of several keys is lent, and which are not.
func TestSeveralKeys(t *testing.T) {
	const key = "sk-CANARYCANARY0123456789"
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"opencode": {
			map[string]string{".local/share/opencode/auth.json": `{"openai":{"key":"` + key + `"},"google":{"key":"` + key + `"},"anthropic":{"key":7}}`},
			"opencode-openai-key; not that for google",
		},
		"gemini": {
			map[string]string{".gemini/.env": "GEMINI_API_KEY=" + key + "\nGOOGLE_API_KEY=" + key, ".env": "GOOGLE_API_KEY=" + key},
			"gemini-google-key; not the key in HOME/.env",
		},
	} {
		e, _, said := signedIn(t)
		for file, text := range c.files {
			credentialtest.PutHome(t, file, text, 0o600)
		}
		a, err := e.Agents.Find(name)
		must(t, err)
		want := strings.ReplaceAll(c.want, "HOME", os.Getenv("HOME"))
		if got, err := e.Find(a); err != nil || got.Secret+got.Besides != want {
			t.Errorf("%+v, %v", got, err)
		}
		_, besides, _ := strings.Cut(want, ";")
		if _, err := e.SecretFor(here, a); err != nil || len(*said) != 1 || !strings.HasSuffix((*said)[0], besides) {
			t.Errorf("%v, said %q", err, *said)
		}
	}
}
