package agents

import (
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/test/harness"
)

// jobs are two jobs: one that is done, and one that is never answered.
const jobs = `
conversations:
  - match: greeting
    turns:
      - text: I write it down.
        tools:
          - write_file: {path: WORK/greeting.txt, content: "hello from inside\n"}
      - tools:
          - run_command: {command: "tr a-z A-Z < WORK/greeting.txt > WORK/loud.txt; uname -a"}
      - text: It is shouted.
        usage: {input: 1200, output: 40}
  - match: patience
    turns:
      - fail: {hang: forever}
`

func TestClaude(t *testing.T) {
	harness.AsUser(t)
	works(t, claude)
}

func TestCodex(t *testing.T) {
	harness.AsRoot(t)
	works(t, codex)
}

func TestGemini(t *testing.T) {
	harness.Sweep(t, "agents")
	works(t, gemini)
}

func TestOpencode(t *testing.T) {
	harness.Sweep(t, "agents")
	works(t, opencode)
}

// works checks that an agent writes a file, runs a command, and ends, with a key it never sees.
func works(t *testing.T, a cli) {
	t.Helper()
	inWorld(t, a, jobs, func(t *testing.T, w *world) {
		r := w.asks(t, "greeting")
		if r.Code != 0 || !strings.Contains(r.Stdout, "It is shouted.") {
			t.Fatalf("%v\nthe model was asked\n%s", r, summary(w.model.Requests()))
		}
		if got := w.read(t, "greeting.txt"); got != "hello from inside\n" {
			t.Errorf("the file is %q", got)
		}
		if got := w.read(t, "loud.txt"); got != "HELLO FROM INSIDE\n" {
			t.Errorf("the command wrote %q", got)
		}
		if mine := w.heard(t, "greeting"); len(mine) < 3 {
			t.Errorf("the model was asked %d times:\n%s", len(mine), summary(mine))
		}
		w.onlyProvider(t)
		w.told(t, r.Stdout)
		w.searched(t)
	})
}

// onlyProvider checks that only the provider got requests.
func (w *world) onlyProvider(t *testing.T) {
	t.Helper()
	for _, got := range w.saw() {
		if w.cli.besides == "" || !strings.HasPrefix(got.head, w.cli.besides) {
			t.Errorf("somebody else was told %s\n%s", got.head, got.body)
		}
	}
}
