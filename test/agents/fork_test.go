package agents

import (
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/modelserver"
	"github.com/bothy-dev/bothy/test/harness"
)

// asked is a job whose first question gets no answer the first time. Its command appends the sandbox's
// name to a file.
const asked = `
conversations:
  - match: patience
    turns:
      - text: I sign it.
        tools:
          - run_command: {command: "hostname >> WORK/mine"}
        fail: {hang: forever, times: 1}
      - text: It is signed.
`

// TestForkClaude forks an agent that waits for an answer, and saves it in a checkpoint. Each copy
// resumes by itself: its request is lost with the connection, and it asks again, with its own lease.
// Each copy does its own work, and so does the original.
func TestForkClaude(t *testing.T) {
	harness.Sweep(t, "agents")
	inWorld(t, claude, asked, func(t *testing.T, w *world) {
		w.once(t)
		if r := w.within(t, w.start("patience", "-d", "--workspace", "review")...); r.Code != 0 {
			t.Fatal(r)
		}
		w.waits(t, "the agent to ask the model", func(q modelserver.Request) bool { return q.Outcome == modelserver.Failed })
		w.Must(t, "checkpoint", "create", "--full", box, "asked")
		w.Must(t, "fork", "-n", "2", box)
		w.signs(t, box+"-fork-1")
		w.signs(t, box+"-fork-2")
		if r := w.Run("exec", box, "cat", "mine"); r.Code == 0 {
			t.Errorf("the one that still waits has done something: %v", r)
		}
		w.model.Close() // ends the hanging request, and nothing else
		w.signs(t, box)
		w.Must(t, "exec", box, "sh", "-c", "echo since > mine")
		w.Must(t, "checkpoint", "restore", "-f", box, "asked")
		w.signs(t, box)

		answered := map[int]int{}
		for _, q := range w.heard(t, "patience") {
			if q.Outcome == modelserver.Answered {
				answered[q.Turn]++
			}
		}
		if answered[0] != 4 || answered[1] != 4 {
			t.Errorf("not everybody got every answer once:\n%s", summary(w.model.Requests()))
		}
		w.onlyProvider(t)
		w.Must(t, "rm", "-f", "--all")
	})
}

// signs waits until the agent of a sandbox is done, and checks its result.
func (w *world) signs(t *testing.T, name string) {
	t.Helper()
	harness.WaitFor(t, patience, name+" to be done", func() bool {
		r := w.within(t, "logs", "--agent", name)
		return strings.Contains(r.Stdout, "It is signed.")
	})
	if got := w.Must(t, "exec", name, "cat", "mine"); got != name+"\n" {
		t.Errorf("%s has %q", name, got)
	}
}
