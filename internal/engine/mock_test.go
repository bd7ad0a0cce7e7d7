package engine

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/credential"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/vault"
	"github.com/bothy-dev/bothy/spec"
)

// script writes one.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script.yaml")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// mocked makes a sandbox whose models are played.
func mocked(t *testing.T, e *Engine, a *spec.Agent, text string) *spec.Sandbox {
	t.Helper()
	m, err := e.NewMock(script(t, text), a)
	must(t, err)
	sb := wish(t.TempDir())
	if a != nil {
		sb.Agent = a.Name
	}
	sb.Env = []string{"MINE=1"}
	m.Apply(sb)
	must(t, e.Create(t.Context(), sb, Script(m)))
	return sb
}

const hello = "turns: [{text: hello}]\n"

func TestMockRefuses(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	must(t, unix.Mkfifo(fifo, 0o600))
	for name, c := range map[string]struct {
		file  string
		agent *spec.Agent
		why   string
	}{
		"no file":     {filepath.Join(t.TempDir(), "none"), nil, "no such file"},
		"a directory": {t.TempDir(), nil, "no regular file"},
		"a fifo":      {fifo, nil, "no regular file"},
		"a typo":      {script(t, "turns:\n  - txt: a\n"), nil, "[2:5]"},
		"a bad turn":  {script(t, "turns:\n  - text: a\n  - {}\n"), nil, "line 3: check conversation 0, turn 1"},
		"too large":   {script(t, strings.Repeat("#", store.MaxSmall+1)), nil, "larger"},
		"no model":    {script(t, hello), &spec.Agent{Title: "Tool", Credentials: []string{"github"}}, "no model can be played for Tool"},
	} {
		class := spec.ErrUsage
		if name == "no file" {
			class = spec.ErrNotFound
		}
		_, err := newEngine(t).NewMock(c.file, c.agent)
		if !errors.Is(err, class) || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An agent has a key for what it logs in with, others one for each provider; none
// of them is anybody's, and no two sandboxes have the same.
func TestMockKeys(t *testing.T) {
	e := newEngine(t)
	a := &spec.Agent{Name: "tool", Title: "Tool", Credentials: []string{"github", "openai", "anthropic"}}
	one, two, shell := mocked(t, e, a, hello), mocked(t, e, a, hello), mocked(t, e, nil, hello)
	if len(one.Mock.Keys) != 1 || !strings.HasPrefix(one.Mock.Keys["openai"], "sk-") || one.Mock.Keys["openai"] == two.Mock.Keys["openai"] {
		t.Errorf("%v, %v", one.Mock.Keys, two.Mock.Keys)
	}
	want := []string{"OPENAI_API_KEY=" + one.Mock.Keys["openai"], "CODEX_API_KEY=" + one.Mock.Keys["openai"], "MINE=1"}
	if !slices.Equal(one.Env, want) {
		t.Errorf("%q", one.Env)
	}
	if shell.Mock.Keys["anthropic"] == "" || shell.Mock.Keys["google"] == "" || shell.Mock.Keys["claude"] != "" || shell.Mock.Keys["github"] != "" {
		t.Errorf("%v", shell.Mock.Keys)
	}
	for _, sb := range []*spec.Sandbox{one, shell} {
		if !slices.IsSorted(sb.Mock.Hosts) || !MockAnswers(sb, "api.anthropic.com") || !MockAnswers(sb, "chatgpt.com") || MockAnswers(sb, "api.github.com") {
			t.Errorf("%q", sb.Mock.Hosts)
		}
	}
	again, err := e.Find(one.Name)
	must(t, err)
	if text, err := os.ReadFile(e.Store.Sandbox(one.ID).Mock()); err != nil || string(text) != hello || again.Mock.Script != one.Mock.Script {
		t.Errorf("%q, %v, %+v", text, err, again.Mock)
	}
}

// An agent that asks a provider by itself may have to be told something when a script plays
// it, as Claude Code has: who holds its tools back until they are searched for is asked for
// none of them by name.
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

// What stands for a credential in the files of an agent's home is the made-up key.
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

// Every agent that comes with Bothy and has a model of its own can be played.
func TestMockAgents(t *testing.T) {
	e, list := newEngine(t), agent.NewCatalog("")
	for _, name := range []string{"claude", "codex", "gemini", "opencode"} {
		a, err := list.Find(name)
		must(t, err)
		if _, err := e.NewMock(script(t, hello), a); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Another script takes the place of the first while the sandbox does not run.
func TestChangeMock(t *testing.T) {
	e := newEngine(t)
	sb := mocked(t, e, nil, hello)
	key := sb.Mock.Keys["anthropic"]
	m, err := e.NewMock(script(t, "turns: [{text: bye}]\n"), nil)
	must(t, err)
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
	must(t, e.ChangeMock(here, sb, m)) // it runs with this one
	first, err := e.NewMock(script(t, hello), nil)
	must(t, err)
	if err := e.ChangeMock(here, sb, first); !errors.Is(err, spec.ErrConflict) || !strings.Contains(spec.Hint(err), "bothy stop") {
		t.Errorf("%v", err)
	}
}

// A secret is not lent for what is played, and its source is not even read.
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
