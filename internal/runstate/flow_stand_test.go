package runstate

import (
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// TestFlowAsksAndWaits checks that a flow names the command to answer it while it waits for models,
// if it also asks a person.
func TestFlowAsksAndWaits(t *testing.T) {
	e, _, r, h := begunFlow(t, "name: two\nagent: a\nsteps:\n- {id: good, approval: {message: Good?}}\n- {id: work, prompt: do, output: o}\n")
	defer h.Close()
	keep := func(kind string, data any) {
		_, err := h.Append(kind, run.ActorHost, data)
		must(t, err)
	}
	check := func(status run.Status, reason, next string, rank int) {
		t.Helper()
		v, err := Summarize(e, r)
		must(t, err)
		l, err := flowViewOf(e, r)
		must(t, err)
		if v.Status != status || v.Reason != reason || v.Next != next || v.Rank() != rank || l.Status != status || l.Reason != reason {
			t.Errorf("%s, %s, next %q, rank %d; its own status is %s, %s", v.Status, v.Reason, v.Next, v.Rank(), l.Status, l.Reason)
		}
	}
	const approve = "bothy flow approve two-2026-11-22-0001"
	keep(run.Began, nil)
	keep(flow.Started, flow.Start{Step: "work", Attempt: 1})
	check("running", "", "", 3)
	limited := flow.Work{Step: "work", Attempt: 1, Verdict: spec.VerdictLimit, Until: time.Now().Add(time.Hour)}
	keep(flow.Worked, limited)
	check("waiting", run.RateLimited, "", 3)
	keep(flow.Asked, flow.Ask{Step: "good", Message: "Good?"})
	check("waiting", flow.ReasonApproval, approve, 0)
	until := func() time.Time {
		t.Helper()
		v, err := flowViewOf(e, r)
		must(t, err)
		return v.Until
	}
	if until().IsZero() {
		t.Error("it waits, and does not say until when")
	}
	keep(flow.Started, flow.Start{Step: "work", Attempt: 2})
	check("running", "", approve, 0)
	limited.Attempt = 2
	keep(flow.Worked, limited)
	keep(run.Ended, flow.End{Status: run.Cancelled, Reason: "stopped"})
	if !until().IsZero() {
		t.Errorf("it was stopped, and waits until %s", until())
	}
	l, err := ReadFlow(e, r)
	must(t, err)
	if list := l.State.Questions(); len(list) > 0 {
		t.Errorf("it was stopped, and asks: %v", list)
	}
}
