package modelmock

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// script writes a script, and returns its path.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script.yaml")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// mocked returns a sandbox whose models are played.
func mocked(t *testing.T, a *spec.Agent, text string) *spec.Sandbox {
	t.Helper()
	m, err := Read(new(hostpath.Guard), script(t, text), a)
	must(t, err)
	sb := &spec.Sandbox{Env: []string{"MINE=1"}}
	m.Apply(sb)
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
		"a directory": {t.TempDir(), nil, "not a regular file"},
		"a fifo":      {fifo, nil, "not a regular file"},
		"a typo":      {script(t, "turns:\n  - txt: a\n"), nil, "[2:5]"},
		"a bad turn":  {script(t, "turns:\n  - text: a\n  - {}\n"), nil, "line 3: check conversation 0, turn 1"},
		"too large":   {script(t, strings.Repeat("#", store.MaxSmall+1)), nil, "larger"},
		"no model":    {script(t, hello), &spec.Agent{Title: "Tool", Credentials: []string{"github"}}, "no model can be played for Tool"},
	} {
		class := spec.ErrUsage
		if name == "no file" {
			class = spec.ErrNotFound
		}
		_, err := Read(new(hostpath.Guard), c.file, c.agent)
		if !errors.Is(err, class) || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMockKeys checks that an agent gets a key for its own login, and a shell one for each provider. No
// two sandboxes have the same keys.
func TestMockKeys(t *testing.T) {
	a := &spec.Agent{Name: "tool", Title: "Tool", Credentials: []string{"github", "openai", "anthropic"}}
	one, two, shell := mocked(t, a, hello), mocked(t, a, hello), mocked(t, nil, hello)
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
		if !slices.IsSorted(sb.Mock.Hosts) || !Answers(sb, "api.anthropic.com") || !Answers(sb, "chatgpt.com") || Answers(sb, "api.github.com") {
			t.Errorf("%q", sb.Mock.Hosts)
		}
	}
}

// TestMockAgents checks that a script can play the models of every agent that comes with Bothy and has
// its own models.
func TestMockAgents(t *testing.T) {
	list := agent.NewCatalog("")
	for _, name := range []string{"claude", "codex", "gemini", "opencode"} {
		a, err := list.Find(name)
		must(t, err)
		if _, err := Read(new(hostpath.Guard), script(t, hello), a); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
