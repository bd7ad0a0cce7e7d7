package runs

import (
	"errors"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// TestStopTooLate checks that a flow which ended before it read the stop message stays completed.
// The message is removed, so it cannot stop a resumed flow.
func TestStopTooLate(t *testing.T) {
	f, err := flowplan.Parse("one.yaml", []byte("name: one\nsteps:\n- {id: a, command: 'true', output: a.txt}\n"))
	must(t, err)
	l := &flowRun{runRecord: runRecord{engine: emptyEngine(t)}, plan: flowplan.Plan{Flow: f}}
	l.run, err = run.CreateFlow(t.TempDir(), "one-2026-11-22-0001", &l.plan, func(string) error { return nil })
	must(t, err)
	h, _, err := l.run.Host()
	must(t, err)
	_, err = h.Append(run.Began, run.ActorHost, nil)
	must(t, err)
	_, err = h.Append(run.Ended, run.ActorHost, flow.End{Status: run.Completed, Reason: "done"})
	must(t, err)
	must(t, l.run.Leave(run.Message{Kind: run.Stop, Actor: "me"}))
	must(t, cancelRun(l)) // another process holds it still
	h.Close()
	if err := cancelRun(l); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("%v", err)
	}
	events, err := l.run.Events()
	must(t, err)
	list, err := l.run.Mail()
	must(t, err)
	if l.state.Status != run.Completed || len(events) != 2 || len(list) != 0 {
		t.Errorf("it is %s, with %d events and %d messages", l.state.Status, len(events), len(list))
	}
}

// TestStopSkipped checks that a completed flow with skipped steps, which could be resumed, can be
// stopped and is over then.
func TestStopSkipped(t *testing.T) {
	f, err := flowplan.Parse("one.yaml", []byte("name: one\nsteps:\n- {id: a, command: 'true', output: a.txt}\n"))
	must(t, err)
	l := &flowRun{runRecord: runRecord{engine: emptyEngine(t)}, plan: flowplan.Plan{Flow: f}}
	l.run, err = run.CreateFlow(t.TempDir(), "one-2026-11-22-0001", &l.plan, func(string) error { return nil })
	must(t, err)
	h, _, err := l.run.Host()
	must(t, err)
	_, err = h.Append(run.Began, run.ActorHost, nil)
	must(t, err)
	_, err = h.Append(run.Ended, run.ActorHost, flow.End{Status: run.Completed, Reason: flow.ReasonSkipped})
	must(t, err)
	h.Close()
	must(t, cancelRun(l))
	if l.state.Status != run.Cancelled || !l.state.Over() {
		t.Errorf("it is %s", l.state.Status)
	}
	if err := l.undone(); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("then %v", err)
	}
}

// TestStopUnmade checks that stopping a flow interrupted in creation removes its sandboxes, except
// those started since, even with rm: true.
func TestStopUnmade(t *testing.T) {
	st, err := store.Open(t.TempDir())
	must(t, err)
	f, err := flowplan.Parse("one.yaml", []byte("name: one\nrm: true\nsteps:\n- {id: a, command: 'true', output: a.txt}\n"))
	must(t, err)
	l := &flowRun{runRecord: runRecord{engine: &engine.Engine{Store: st}}, plan: flowplan.Plan{Flow: f, Remove: true, Sandboxes: map[string]string{}}}
	for _, name := range []string{"new", "used"} {
		sb := &spec.Sandbox{ID: store.NewID(), Name: name}
		d, err := st.Create(sb)
		must(t, err)
		if name == "used" {
			must(t, store.WriteJSON(d.Status(), spec.Status{Version: spec.Version, State: spec.Stopped, StartedAt: new(time.Now())}))
		}
		l.plan.Sandboxes[name] = sb.ID
	}
	l.run, err = run.CreateFlow(st.Runs(), "one-2026-11-22-0001", &l.plan, func(string) error { return nil })
	must(t, err)
	must(t, cancelRun(l))
	list, err := st.List()
	must(t, err)
	if l.state.Status != run.Cancelled || len(list) != 1 || list[0].Name != "used" {
		t.Errorf("it is %s, and there are %v", l.state.Status, list)
	}
}
