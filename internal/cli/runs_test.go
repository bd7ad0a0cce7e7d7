package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/internal/runstate/runstatetest"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// TestNeededSandbox checks that a sandbox that a waiting run needs is not removed without a warning, and
// that the run reports afterwards what is left to do.
func TestNeededSandbox(t *testing.T) {
	st, err := store.Open(t.TempDir())
	must(t, err)
	e := &engine.Engine{Store: st}
	f, err := flowplan.Parse("two.yaml", []byte("name: two\nsteps:\n- {id: good, approval: {message: Good?}}\n- {id: work, needs: [good], command: 'true'}\n"))
	must(t, err)
	plan := &flowplan.Plan{Flow: f, Values: map[string]string{}, Sandboxes: map[string]string{"shell": runstatetest.Sandbox(t, st, "two-shell")}}
	sb, err := e.Find("two-shell")
	must(t, err)
	r, err := run.CreateFlow(st.Runs(), "", "two-2026-11-22-0001", plan, func(string) error { return nil })
	must(t, err)
	runstatetest.Append(t, r, runstatetest.Event(t, run.Ready, flow.Made{}), runstatetest.Event(t, run.Began, nil), runstatetest.Event(t, flow.Asked, flow.Ask{Step: "good", Message: "Good?"}),
		runstatetest.Event(t, run.Ended, flow.End{Status: run.Waiting, Reason: flow.ReasonApproval})).Close()

	lost, err := runstate.LostWith(e, sb, runstate.Needing(e)(sb))
	if !errors.Is(err, spec.ErrConflict) || !strings.Contains(err.Error(), "the flow "+r.ID+" needs sandbox two-shell to go on: it is waiting") || lost != ", which the flow "+r.ID+" needs to go on (waiting)" {
		t.Errorf("%q: %v", lost, err)
	}
	if v, err := runstate.Summarize(e, r); err != nil || v.Next != "bothy flow approve "+r.ID || strings.Contains(v.Why(), "removed") {
		t.Errorf("before: %+v, %v", v, err)
	}
	must(t, e.Remove(t.Context(), sb, true))
	if v, err := runstate.Summarize(e, r); err != nil || v.Next != "bothy flow rm "+r.ID || !strings.HasSuffix(v.Why(), "; its sandbox was removed") {
		t.Errorf("after: next is %q, %q, %v", v.Next, v.Why(), err)
	}
	runstatetest.Append(t, r, runstatetest.Event(t, run.Ended, flow.End{Status: run.Cancelled, Reason: "stopped"})).Close()
	if lost, err := runstate.LostWith(e, sb, runstate.Needing(e)(sb)); err != nil || lost != "" {
		t.Errorf("when it is stopped: %q, %v", lost, err)
	}
}
