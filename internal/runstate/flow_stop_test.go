package runstate

import (
	"errors"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runstate/runstatetest"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// TestStopTooLate checks that a flow which ended before it read the stop message stays completed.
// The message is removed, so it cannot stop a resumed flow.
func TestStopTooLate(t *testing.T) {
	f, err := flowplan.Parse("one.yaml", []byte("name: one\nsteps:\n- {id: a, command: 'true', output: a.txt}\n"))
	must(t, err)
	l := &Flow{Record: Record{Engine: runstatetest.EmptyEngine(t)}, Plan: flowplan.Plan{Flow: f}}
	l.Run, err = run.CreateFlow(t.TempDir(), "", "one-2026-11-22-0001", &l.Plan, func(string) error { return nil })
	must(t, err)
	h, _, err := l.Run.Host()
	must(t, err)
	_, err = h.Append(run.Began, run.ActorHost, nil)
	must(t, err)
	_, err = h.Append(run.Ended, run.ActorHost, flow.End{Status: run.Completed, Reason: "done"})
	must(t, err)
	must(t, l.Run.Leave(run.Message{Kind: run.Stop, Actor: "me"}))
	must(t, Cancel(l)) // another process holds it still
	h.Close()
	if err := Cancel(l); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("%v", err)
	}
	events, err := l.Run.Events()
	must(t, err)
	list, err := l.Run.Mail()
	must(t, err)
	if l.State.Status != run.Completed || len(events) != 2 || len(list) != 0 {
		t.Errorf("it is %s, with %d events and %d messages", l.State.Status, len(events), len(list))
	}
}

// TestStopSkipped checks that a completed flow with skipped steps, which could be resumed, can be
// stopped and is over then.
func TestStopSkipped(t *testing.T) {
	f, err := flowplan.Parse("one.yaml", []byte("name: one\nsteps:\n- {id: a, command: 'true', output: a.txt}\n"))
	must(t, err)
	l := &Flow{Record: Record{Engine: runstatetest.EmptyEngine(t)}, Plan: flowplan.Plan{Flow: f}}
	l.Run, err = run.CreateFlow(t.TempDir(), "", "one-2026-11-22-0001", &l.Plan, func(string) error { return nil })
	must(t, err)
	h, _, err := l.Run.Host()
	must(t, err)
	_, err = h.Append(run.Began, run.ActorHost, nil)
	must(t, err)
	_, err = h.Append(run.Ended, run.ActorHost, flow.End{Status: run.Completed, Reason: flow.ReasonSkipped})
	must(t, err)
	h.Close()
	must(t, Cancel(l))
	if l.State.Status != run.Cancelled || !l.State.Over() {
		t.Errorf("it is %s", l.State.Status)
	}
	if err := l.CheckUndone(); !errors.Is(err, spec.ErrConflict) {
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
	l := &Flow{Record: Record{Engine: &engine.Engine{Store: st}}, Plan: flowplan.Plan{Flow: f, Remove: true, Sandboxes: map[string]string{}}}
	for _, name := range []string{"new", "used"} {
		sb := &spec.Sandbox{ID: store.NewID(), Name: name}
		d, err := st.Create(sb)
		must(t, err)
		if name == "used" {
			must(t, store.WriteJSON(d.Status(), spec.Status{Version: spec.Version, State: spec.Stopped, StartedAt: new(time.Now())}))
		}
		l.Plan.Sandboxes[name] = sb.ID
	}
	l.Run, err = run.CreateFlow(st.Runs(), "", "one-2026-11-22-0001", &l.Plan, func(string) error { return nil })
	must(t, err)
	must(t, Cancel(l))
	list, err := st.List()
	must(t, err)
	if l.State.Status != run.Cancelled || len(list) != 1 || list[0].Name != "used" {
		t.Errorf("it is %s, and there are %v", l.State.Status, list)
	}
}
