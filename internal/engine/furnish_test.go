package engine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/credential/credentialtest"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// furnished returns a sandbox of an agent whose home was furnished while nothing was lent.
func furnished(t *testing.T, e *Engine, name string) (sb *spec.Sandbox, home string) {
	t.Helper()
	sb = wish(t.TempDir())
	sb.Name, sb.Agent = name, name
	must(t, e.Create(t.Context(), sb))
	must(t, e.Homes().Furnish(sb))
	return sb, e.Store.Sandbox(sb.ID).Home()
}

// TestHomeWithoutCredential checks that a home shows no credential to its agent until the first start
// with a lease.
func TestHomeWithoutCredential(t *testing.T) {
	e, _, _ := signedIn(t)
	must(t, e.Credentials().SetSecret(here, stored("openai", canary)))
	must(t, e.Credentials().SetSecret(here, stored("google", canary)))
	must(t, e.Credentials().SetSecret(here, stored("anthropic", canary)))
	must(t, e.Credentials().SetSecret(here, stored("claude", credentialtest.Access)))
	for _, tt := range []struct {
		agent, secret, file string
		sign                string // of a credential, in the file
	}{
		{"codex", "openai", ".codex/auth.json", `{"OPENAI_API_KEY":"sk-`},
		{"gemini", "google", ".gemini/settings.json", `{"selectedType":"gemini-api-key"}`},
		{"claude", "anthropic", ".claude.json", `"customApiKeyResponses":{"approved":["`},
		{"claude", "claude", ".claude.json", `"hasCompletedOnboarding":true`},
	} {
		t.Run(tt.agent+" "+tt.secret, func(t *testing.T) {
			sb, home := furnished(t, e, tt.agent)
			defer func() { must(t, e.Remove(t.Context(), sb, true)) }()
			file := filepath.Join(home, tt.file)
			text, err := os.ReadFile(file)
			if tt.agent == "codex" {
				if !errors.Is(err, fs.ErrNotExist) { // the agent takes even an empty file for a login
					t.Errorf("%s, %v", text, err)
				}
			} else if err != nil || strings.Contains(string(text), tt.sign) || strings.Contains(string(text), `""`) {
				t.Errorf("%s, %v", text, err)
			}
			_, err = e.Credentials().Lend(here, sb, tt.secret, vault.Terms{})
			must(t, err)
			must(t, e.Homes().Refurnish(sb))
			if text, err = os.ReadFile(file); err != nil || !strings.Contains(string(text), tt.sign) || strings.Contains(string(text), `""`) {
				t.Errorf("%s, %v", text, err)
			}
		})
	}
}

// TestLoggedInInside checks that a login that was made inside stays. A home that a program inside has
// prepared leads nowhere outside, and does not prevent the start.
func TestLoggedInInside(t *testing.T) {
	e, _, said := signedIn(t)
	must(t, e.Credentials().SetSecret(here, stored("openai", canary)))
	sb, home := furnished(t, e, "codex")
	file := filepath.Join(home, ".codex/auth.json")
	must(t, os.WriteFile(file, []byte("their own"), 0o600))
	_, err := e.Credentials().Lend(here, sb, "openai", vault.Terms{})
	must(t, err)
	must(t, e.Homes().Refurnish(sb))
	if text, err := os.ReadFile(file); string(text) != "their own" {
		t.Errorf("%s, %v", text, err)
	}
	elsewhere := t.TempDir()
	must(t, os.RemoveAll(filepath.Join(home, ".codex")))
	must(t, os.Symlink(elsewhere, filepath.Join(home, ".codex")))
	*said = nil
	must(t, e.Homes().Refurnish(sb))
	if list, _ := os.ReadDir(elsewhere); len(list) != 0 || len(*said) == 0 {
		t.Errorf("outside is %v, said %q", list, *said)
	}
}

// TestOwnLoginsStay checks that neither a template nor a copy has the login that an agent made by
// itself.
func TestOwnLoginsStay(t *testing.T) {
	e, _, _ := signedIn(t)
	all, err := e.Agents.LoginFiles()
	must(t, err)
	for name, files := range map[string][]string{
		"shell": of(all), "cursor": of(all), // any agent may have been run there
		"gemini":   {".gemini/oauth_creds.json", ".gemini/gemini-credentials.json", ".gemini/mcp-oauth-tokens.json", ".gemini/a2a-oauth-tokens.json"},
		"opencode": {".local/share/opencode/auth.json", ".local/share/opencode/mcp-auth.json"},
		"codex":    {".codex/auth.json", ".codex/.credentials.json", ".codex/secrets/mcp_oauth.age"},
		"copilot":  {".copilot/config.json", ".copilot/mcp-oauth-config/a.tokens.json", ".copilot/mcp-secrets/a.json"},
		"claude":   {".claude/.credentials.json", ".claude/backups/.claude.json.backup.1", ".claude.json.backup", ".claude.json.backup.17", ".claude/.device-keys.json", ".claude/daemon/auth/a.json", ".cursor/projects/a-b/mcp-auth.json", ".cursor/projects/c/mcp-auth.json"},
	} {
		sb, home := furnished(t, e, name)
		root, err := os.OpenRoot(home)
		must(t, err)
		defer root.Close()
		for _, take := range []func(*spec.Sandbox, *os.Root) error{e.Homes().Strip, e.Homes().RemoveLendable} {
			for _, f := range append(files, "notes") {
				must(t, os.MkdirAll(filepath.Dir(filepath.Join(home, f)), 0o700))
				must(t, os.WriteFile(filepath.Join(home, f), []byte("their own"), 0o600))
			}
			must(t, take(sb, root))
			for _, f := range files {
				if _, err := root.Lstat(f); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s: %s goes along: %v", name, f, err)
				}
			}
			if _, err := root.Lstat("notes"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// of returns a path for each pattern that matches it.
func of(patterns []string) (paths []string) {
	for _, p := range patterns {
		paths = append(paths, strings.ReplaceAll(p, "*", "any"))
	}
	return paths
}

// TestLoginsOfPattern checks that a file that a pattern of logins matches but that is not a login is
// neither changed nor waited for.
func TestLoginsOfPattern(t *testing.T) {
	for name, prepare := range map[string]func(home, elsewhere string){
		"a pipe":    func(home, _ string) { must(t, unix.Mkfifo(filepath.Join(home, ".cursor/projects"), 0o600)) },
		"a way out": func(home, elsewhere string) { must(t, os.Symlink(elsewhere, filepath.Join(home, ".cursor/projects"))) },
		"one below": func(home, elsewhere string) {
			must(t, os.Mkdir(filepath.Join(home, ".cursor/projects"), 0o700))
			must(t, os.Symlink(filepath.Join(elsewhere, "a"), filepath.Join(home, ".cursor/projects/a")))
		},
		"not a folder": func(home, _ string) { must(t, os.WriteFile(filepath.Join(home, ".cursor/projects"), nil, 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			e, _, _ := signedIn(t)
			sb, home := furnished(t, e, "shell")
			elsewhere := t.TempDir()
			must(t, os.Mkdir(filepath.Join(elsewhere, "a"), 0o700))
			must(t, os.WriteFile(filepath.Join(elsewhere, "a/mcp-auth.json"), []byte("their own"), 0o600))
			must(t, os.Mkdir(filepath.Join(home, ".cursor"), 0o700))
			prepare(home, elsewhere)
			root, err := os.OpenRoot(home)
			must(t, err)
			defer root.Close()
			must(t, e.Homes().Strip(sb, root))
			if _, err := os.Lstat(filepath.Join(elsewhere, "a/mcp-auth.json")); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestNoLoginsOfOthers checks that unreachable places of other agents' logins do not prevent a copy.
func TestNoLoginsOfOthers(t *testing.T) {
	e, _, _ := signedIn(t)
	sb, home := furnished(t, e, "shell")
	elsewhere := t.TempDir()
	must(t, os.WriteFile(filepath.Join(elsewhere, "auth.json"), []byte("their own"), 0o600))
	must(t, os.Symlink(elsewhere, filepath.Join(home, ".codex")))
	must(t, os.Symlink("nowhere", filepath.Join(home, ".claude")))
	must(t, os.WriteFile(filepath.Join(home, ".gemini"), []byte("notes"), 0o600))
	must(t, os.MkdirAll(filepath.Join(home, "share/opencode"), 0o700))
	must(t, os.MkdirAll(filepath.Join(home, ".local"), 0o700))
	must(t, os.Symlink("../share", filepath.Join(home, ".local/share")))
	must(t, os.WriteFile(filepath.Join(home, "share/opencode/auth.json"), []byte("their own"), 0o600))
	root, err := os.OpenRoot(home)
	must(t, err)
	defer root.Close()
	must(t, e.Homes().Strip(sb, root))
	if _, err := root.Lstat("share/opencode/auth.json"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it goes along: %v", err)
	}
	for _, f := range []string{filepath.Join(elsewhere, "auth.json"), filepath.Join(home, ".gemini")} {
		if _, err := os.Lstat(f); err != nil {
			t.Error(err)
		}
	}
}
