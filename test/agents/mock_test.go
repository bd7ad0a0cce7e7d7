package agents

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/modelserver"
	"github.com/bothy-dev/bothy/spec"
	"github.com/bothy-dev/bothy/test/harness"
)

func TestMockClaude(t *testing.T) {
	harness.AsRoot(t)
	mocks(t, claude)
}

func TestMockCodex(t *testing.T) {
	harness.Sweep(t, "agents")
	mocks(t, codex)
}

func TestMockGemini(t *testing.T) {
	harness.Sweep(t, "agents")
	mocks(t, gemini)
}

func TestMockOpencode(t *testing.T) {
	harness.Sweep(t, "agents")
	mocks(t, opencode)
}

// TestMockCopilot checks a user with a key. The key is not used here: the mock plays another provider
// instead of its maker's servers.
func TestMockCopilot(t *testing.T) {
	harness.Sweep(t, "agents")
	inWorld(t, copilot, jobs, func(t *testing.T, w *world) {
		script := w.Write(t, filepath.Join(w.Base, "jobs.yaml"), strings.ReplaceAll(jobs, "WORK", w.Work))
		r := w.within(t, append([]string{"run", "--name", box, "--mock", script, "copilot", w.Work, "--"}, copilot.command("greeting")...)...)
		if r.Code != 0 || !strings.Contains(r.Stdout, "It is shouted.") {
			t.Fatalf("%v\n%s", r, w.Must(t, "logs", "--source", "model", box))
		}
		if got := w.read(t, "loud.txt"); got != "HELLO FROM INSIDE\n" {
			t.Errorf("the command wrote %q", got)
		}
		w.playedAlone(t)
		w.told(t, r.Stdout)
		w.absentInFiles(t)
	})
}

// mocks checks that an agent does what the example's script says, with only --mock. Neither its provider
// nor any other host gets a request, and the key on the host is not even read.
func mocks(t *testing.T, a cli) {
	t.Helper()
	inWorld(t, a, jobs, func(t *testing.T, w *world) {
		text, err := os.ReadFile(filepath.Join("..", "..", "examples", "mock", "hello.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		script := w.Write(t, filepath.Join(w.Base, "hello.yaml"), string(text))
		args := append([]string{"run", "--name", box, "--mock", script, a.name, w.Work, "--"}, a.command("greeting")...)
		r := w.within(t, args...)
		if r.Code != 0 || !strings.Contains(r.Stdout, "Done, it says hello.") {
			t.Fatalf("%v\n%s", r, w.Must(t, "logs", "--source", "model", box))
		}
		for _, said := range []string{"credential", "lent", "no model is asked"} {
			if strings.Contains(r.Stderr, said) {
				t.Errorf("it speaks of %q: %s", said, r.Stderr)
			}
		}
		if got := w.read(t, "hello.txt"); got != "hello from a scripted model\n" {
			t.Errorf("the file is %q", got)
		}
		w.playedAlone(t)

		r = w.asksAgain(t, "sing")
		if r.Code != 0 || !strings.Contains(r.Stdout, "I only write") || !strings.Contains(r.Stderr, "no model is asked") {
			t.Errorf("%v", r)
		}
		w.playedAlone(t)
		harness.Absent(t, "the environment inside", []byte(w.Must(t, "exec", box, "env")), w.key)
		harness.AbsentInProcesses(t, w.key)
		w.absentInFiles(t)
	})
}

// playedAlone checks that the mock answered, and that no other host got a request.
func (w *world) playedAlone(t *testing.T) {
	t.Helper()
	for _, q := range w.model.Requests() {
		t.Errorf("the real provider was asked %s %s", q.Method, q.Path)
	}
	w.onlyProvider(t)
	if out := w.Must(t, "secret", "ls", "--json"); !strings.Contains(out, `"secrets": []`) || !strings.Contains(out, `"leases": []`) {
		t.Errorf("there are secrets now: %s", out)
	}
	for _, r := range w.network(t) {
		if r.Name == w.cli.host && !r.Mocked {
			t.Errorf("not by the mock: %+v", r)
		}
	}
	turns := map[int]bool{}
	for line := range strings.Lines(w.Must(t, "logs", "--source", "model", "--json", box)) {
		var q spec.ModelRequest
		if err := json.Unmarshal([]byte(line), &q); err != nil {
			t.Fatal(err)
		}
		if q.Outcome == string(modelserver.Answered) {
			turns[*q.Turn] = true
		}
		if q.Outcome == string(modelserver.Refused) && !slices.Contains(asides, q.Path) {
			t.Errorf("the mock refused %s %s: %s", q.Method, q.Path, q.Error)
		}
		if strings.HasPrefix(q.Path, "/backend-api/codex/") { // with a key, which is for another host
			t.Errorf("who is for logins was asked %s %s", q.Method, q.Path)
		}
	}
	if !turns[0] || !turns[1] || !turns[2] {
		t.Errorf("not every turn was asked for: %v", turns)
	}
}

// asides are requests of agents that no script answers, and that they do not need.
var asides = []string{
	"/api/claude_code/settings", "/api/claude_code/policy_limits", // Claude Code
	"/backend-api/plugins/export/curated", "/v1/responses", // Codex, the last for a WebSocket
}
