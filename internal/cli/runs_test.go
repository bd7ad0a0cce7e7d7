package cli

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// waits is a run that may wait for something.
type waits struct {
	run.Delay
	ok bool
}

func (w waits) Waits() (run.Delay, bool) { return w.Delay, w.ok }

func (w waits) Denied() bool { return !w.Since.IsZero() }

// TestRunWaits checks that a run that waits for models says why, and until when.
func TestRunWaits(t *testing.T) {
	until := time.Date(2026, 11, 22, 12, 0, 0, 0, time.Local)
	v := runView{Detail: "d"}
	v.wait(waits{run.Delay{For: run.Overloaded, Until: until}, false})
	if v.WaitingFor != "" || !v.Until.IsZero() || v.why() != "d" {
		t.Errorf("it waits for nothing: %+v", v)
	}
	v.wait(waits{run.Delay{For: run.Overloaded, Until: until}, true})
	if v.WaitingFor != run.Overloaded || !v.Until.Equal(until) || !strings.Contains(v.why(), "2026-11-22 12:00:00, the provider") {
		t.Errorf("it waits: %+v: %s", v, v.why())
	}
	v.asks = "question"
	if v.why() != "d" {
		t.Errorf("it asks a person: %s", v.why())
	}
}

// TestNeededSandbox checks that a sandbox that a waiting run needs is not removed without a warning, and
// that the run reports afterwards what is left to do.
func TestNeededSandbox(t *testing.T) {
	st, err := store.Open(t.TempDir())
	must(t, err)
	e := &engine.Engine{Store: st}
	f, err := flow.Parse("two.yaml", []byte("name: two\nsteps:\n- {id: good, approval: {message: Good?}}\n- {id: work, needs: [good], command: 'true'}\n"))
	must(t, err)
	plan := &flow.Plan{Flow: f, Values: map[string]string{}, Sandboxes: map[string]string{"shell": house(t, st, "two-shell")}}
	sb, err := e.Find("two-shell")
	must(t, err)
	r, err := run.CreateFlow(st.Runs(), "two-2026-11-22-0001", plan, func(string) error { return nil })
	must(t, err)
	past(t, r, event(t, run.Ready, flow.Made{}), event(t, run.Began, nil), event(t, flow.Asked, flow.Ask{Step: "good", Message: "Good?"}),
		event(t, run.Ended, flow.End{Status: run.Waiting, Reason: flow.ReasonApproval})).Close()

	lost, err := lostWith(e, sb, needing(e)(sb))
	if !errors.Is(err, spec.ErrConflict) || !strings.Contains(err.Error(), "the flow "+r.ID+" needs sandbox two-shell to go on: it is waiting") || lost != ", which the flow "+r.ID+" needs to go on (waiting)" {
		t.Errorf("%q: %v", lost, err)
	}
	if v, err := runViewOf(e, r); err != nil || v.Next != "bothy flow approve "+r.ID || strings.Contains(v.why(), "removed") {
		t.Errorf("before: %+v, %v", v, err)
	}
	must(t, e.Remove(t.Context(), sb, true))
	if v, err := runViewOf(e, r); err != nil || v.Next != "bothy flow rm "+r.ID || !strings.HasSuffix(v.why(), "; its sandbox was removed") {
		t.Errorf("after: next is %q, %q, %v", v.Next, v.why(), err)
	}
	past(t, r, event(t, run.Ended, flow.End{Status: run.Cancelled, Reason: "stopped"})).Close()
	if lost, err := lostWith(e, sb, needing(e)(sb)); err != nil || lost != "" {
		t.Errorf("when it is stopped: %q, %v", lost, err)
	}
}
