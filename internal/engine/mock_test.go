package engine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/credential"
	"github.com/bothy-dev/bothy/internal/modelmock"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// script writes a script and returns its path.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script.yaml")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// read reads a script.
func read(t *testing.T, e *Engine, text string, a *spec.Agent) *modelmock.Mock {
	t.Helper()
	paths, err := e.Paths()
	must(t, err)
	m, err := modelmock.Read(paths, script(t, text), a)
	must(t, err)
	return m
}

// mocked makes a sandbox whose models are played.
func mocked(t *testing.T, e *Engine, a *spec.Agent, text string) *spec.Sandbox {
	t.Helper()
	m := read(t, e, text, a)
	sb := wish(t.TempDir())
	if a != nil {
		sb.Agent = a.Name
	}
	sb.Env = []string{"MINE=1"}
	m.Apply(sb)
	must(t, e.Create(t.Context(), sb, m.Write))
	return sb
}

const hello = "turns: [{text: hello}]\n"

// TestMockInHome checks that the files of an agent's home have the made-up key as placeholder.
func TestMockInHome(t *testing.T) {
	e := newEngine(t)
	e.Agents = agent.NewCatalog("")
	codex, err := e.Agents.Find("codex")
	must(t, err)
	sb := mocked(t, e, codex, hello)
	must(t, e.Homes().Furnish(sb))
	text, err := os.ReadFile(filepath.Join(e.Store.Sandbox(sb.ID).Home(), ".codex/auth.json"))
	must(t, err)
	if want := `{"OPENAI_API_KEY":"` + sb.Mock.Keys["openai"] + `"}`; string(text) != want {
		t.Errorf("%s, not %s", text, want)
	}
}

// TestMockIsLentNothing checks that no secret is lent for a played model, and that its source is not
// read.
func TestMockIsLentNothing(t *testing.T) {
	e := newEngine(t)
	sb := mocked(t, e, nil, hello)
	trace := filepath.Join(t.TempDir(), "read")
	must(t, e.Credentials().SetSecret(here, credential.NewSecret{Name: "anthropic", Source: vault.Source{Kind: vault.SourceCommand, Command: []string{"/bin/sh", "-c", "echo read >> " + trace + "; echo " + canary}}}))
	must(t, e.Credentials().SetSecret(here, stored("other", canary)))
	for secret, hosts := range map[string][]string{"anthropic": nil, "other": {"API.openai.com:443"}} {
		_, err := e.Credentials().Lend(here, sb, secret, vault.Terms{Hosts: hosts})
		if !errors.Is(err, spec.ErrConflict) || !strings.Contains(err.Error(), "mock") {
			t.Errorf("%s: %v", secret, err)
		}
	}
	if _, err := os.Stat(trace); !errors.Is(err, os.ErrNotExist) {
		t.Error("the source was read")
	}
	if _, err := e.Credentials().Lend(here, sb, "other", vault.Terms{Hosts: []string{"api.example.com"}}); err != nil {
		t.Errorf("another host: %v", err)
	}
}
