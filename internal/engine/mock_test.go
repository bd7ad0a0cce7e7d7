package engine

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/credential"
	"github.com/bothy-dev/bothy/internal/modelmock"
	"github.com/bothy-dev/bothy/internal/store"
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

// TestMockTells checks that agents get the settings that they need when a script plays their provider.
// Claude Code holds its tools back until they are searched for; then a script could not ask for them by
// name.
func TestMockTells(t *testing.T) {
	e, _, _ := signedIn(t)
	own := &spec.Agent{Name: "tool", Title: "Tool", Credentials: []string{"openai"}, Mock: &spec.AgentMock{Env: map[string]string{"KEY": "{key}"}}}
	for want, a := range map[string]*spec.Agent{"ENABLE_TOOL_SEARCH=false": claude(t, e), "KEY=sk-": own} {
		sb := mocked(t, e, a, hello)
		has := func(env []string) bool {
			return slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, want) })
		}
		if !has(sb.Env) || !has(ofAgent(sb, a)) {
			t.Errorf("%s is not among %q, %q", want, sb.Env, ofAgent(sb, a))
		}
		sb.Mock = nil
		if has(ofAgent(sb, a)) {
			t.Errorf("%s is set without a mock", want)
		}
	}
}

// TestMockInHome checks that the files of an agent's home have the made-up key as placeholder.
func TestMockInHome(t *testing.T) {
	e := newEngine(t)
	e.Agents = agent.NewCatalog("")
	codex, err := e.Agents.Find("codex")
	must(t, err)
	sb := mocked(t, e, codex, hello)
	must(t, e.furnish(sb))
	text, err := os.ReadFile(filepath.Join(e.Store.Sandbox(sb.ID).Home(), ".codex/auth.json"))
	must(t, err)
	if want := `{"OPENAI_API_KEY":"` + sb.Mock.Keys["openai"] + `"}`; string(text) != want {
		t.Errorf("%s, not %s", text, want)
	}
}

// TestChangeMock checks that a script can be replaced while the sandbox does not run.
func TestChangeMock(t *testing.T) {
	e := newEngine(t)
	sb := mocked(t, e, nil, hello)
	key := sb.Mock.Keys["anthropic"]
	made, err := e.Find(sb.Name)
	must(t, err)
	if text, err := os.ReadFile(e.Store.Sandbox(sb.ID).Mock()); err != nil || string(text) != hello || made.Mock.Script != sb.Mock.Script {
		t.Errorf("%q, %v, %+v", text, err, made.Mock)
	}
	m := read(t, e, "turns: [{text: bye}]\n", nil)
	must(t, e.ChangeMock(here, sb, m))
	now, err := e.Find(sb.Name)
	must(t, err)
	text, _ := os.ReadFile(e.Store.Sandbox(sb.ID).Mock())
	if string(text) != "turns: [{text: bye}]\n" || now.Mock.Script != m.Mock.Script || now.Mock.Keys["anthropic"] != key || sb.Mock.Script != m.Mock.Script {
		t.Errorf("%s, %+v", text, now.Mock)
	}

	d := e.Store.Sandbox(sb.ID)
	lock, err := store.TryLock(d.Lock())
	must(t, err)
	defer lock.Unlock()
	(&fakeKeeper{}).serve(t, d)
	must(t, e.ChangeMock(here, sb, m)) // it runs with this script
	first := read(t, e, hello, nil)
	if err := e.ChangeMock(here, sb, first); !errors.Is(err, spec.ErrConflict) || !strings.Contains(spec.Hint(err), "bothy stop") {
		t.Errorf("%v", err)
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
