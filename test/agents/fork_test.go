package agents

import (
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/modelserver"
	"github.com/bothy-dev/bothy/test/harness"
)

// asked is a job whose first question is not answered when it is asked for the first time,
// and then tells whose work it is.
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

// TestForkClaude: an agent that waits for an answer is forked, and put into a checkpoint.
// Each goes on from there by itself: what it had asked is lost with its connection, and asked
// again, with its own lease; it does its own work, and so does the one they were made of.
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
		w.model.Close() // what hangs, and nothing else
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

// signs waits until the agent of a sandbox is done, and looks at what it did.
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
