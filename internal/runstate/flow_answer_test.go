package runstate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// begunFlow returns a flow with no finished step, and its host.
func begunFlow(t *testing.T, text string) (*engine.Engine, *flowplan.Plan, *run.Run, *run.Host) {
	t.Helper()
	st, err := store.Open(t.TempDir())
	must(t, err)
	f, err := flowplan.Parse("f.yaml", []byte(text))
	must(t, err)
	plan := &flowplan.Plan{Flow: f, Values: map[string]string{}}
	must(t, plan.Check(nil))
	r, err := run.CreateFlow(st.Runs(), "", "two-2026-11-22-0001", plan, func(dir string) error { return flow.Fill(dir, nil) })
	must(t, err)
	h, _, err := r.Host()
	must(t, err)
	return &engine.Engine{Store: st}, plan, r, h
}

// flowViewOf returns the state of a flow in JSON.
func flowViewOf(e *engine.Engine, r *run.Run) (FlowView, error) {
	l, err := ReadFlow(e, r)
	if err != nil {
		return FlowView{}, err
	}
	return l.View().(FlowView), nil
}

// asked returns a flow that waits for an approval.
func asked(t *testing.T) *Flow {
	t.Helper()
	e, plan, r, h := begunFlow(t, "name: two\nsteps:\n- {id: good, approval: {message: Good?}}\n- {id: work, needs: [good], command: 'true'}\n")
	defer h.Close()
	ready, err := h.Append(run.Ready, run.ActorHost, flow.Made{})
	must(t, err)
	_, err = (&flow.Carrier{Plan: plan, Run: r, Host: h}).Carry(t.Context(), []run.Event{ready})
	must(t, err)
	l, err := ReadFlow(e, r)
	must(t, err)
	return l
}

// person returns the named person who decides.
func personOf(l *Flow, name string) *flow.Person {
	return &flow.Person{Plan: &l.Plan, Run: l.Run, Name: name}
}

func approve(p *flow.Person) (*flow.State, error) { return p.Decide("", true, "") }

func reject(p *flow.Person) (*flow.State, error) { return p.Decide("", false, "no") }

// untilLeft waits until count messages wait.
func untilLeft(t *testing.T, l *Flow, count int) []run.Message {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		list, err := l.Run.Mail()
		must(t, err)
		if len(list) == count {
			return list
		}
	}
	t.Fatal("nothing is left")
	return nil
}

// TestTell checks that a process which holds the run briefly is not mistaken for its runner. The
// answer is recorded when that process releases the run, or it learns that the other one decided.
func TestTell(t *testing.T) {
	for name, tt := range map[string]struct {
		meanwhile func(t *testing.T, l *Flow, h *run.Host, events []run.Event)
		want      string // of the error
		heard     bool
	}{
		"nothing": {func(*testing.T, *Flow, *run.Host, []run.Event) {}, "", false},
		"another decides": {func(t *testing.T, l *Flow, h *run.Host, events []run.Event) {
			p := personOf(l, "bob")
			p.Host, p.Events = h, events
			_, err := reject(p)
			must(t, err)
		}, "nothing of the run two-2026-11-22-0001 waits to be approved", false},
		"it is heard": {func(t *testing.T, l *Flow, h *run.Host, events []run.Event) {
			carryOn(t, l, h, events)
		}, "", true},
		"another is heard first": {func(t *testing.T, l *Flow, h *run.Host, events []run.Event) {
			p := personOf(l, "bob")
			p.Host, p.Events = h, events
			_, err := reject(p)
			must(t, err)
			must(t, l.Run.Take(untilLeft(t, l, 1)[0]))
		}, "good of the run two-2026-11-22-0001 was rejected by bob first", true},
		"it is stopped": {func(t *testing.T, _ *Flow, h *run.Host, _ []run.Event) {
			_, err := h.Append(run.Ended, "bob", flow.End{Status: run.Cancelled, Reason: "stopped"})
			must(t, err)
		}, "nothing of the run two-2026-11-22-0001 waits to be approved", false},
	} {
		t.Run(name, func(t *testing.T) {
			l := asked(t)
			h, events, err := l.Run.Host()
			must(t, err)
			var heard bool
			told := make(chan error)
			go func() {
				var err error
				heard, err = l.RecordAnswer(context.Background(), personOf(l, "ann"), approve)
				told <- err
			}()
			untilLeft(t, l, 1)
			tt.meanwhile(t, l, h, events)
			h.Close()
			err = <-told
			if tt.want == "" && err != nil || tt.want != "" && (!errors.Is(err, spec.ErrConflict) || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("it comes to %v", err)
			}
			if heard != tt.heard {
				t.Errorf("heard is %t", heard)
			}
			untilLeft(t, l, 0)
		})
	}
}

// carryOn runs a flow that needs no sandbox, and cancels it at once.
func carryOn(t *testing.T, l *Flow, h *run.Host, events []run.Event) {
	t.Helper()
	untilLeft(t, l, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := (&flow.Carrier{Plan: &l.Plan, Run: l.Run, Host: h}).Carry(ctx, events)
	must(t, err)
}

// TestUnheard checks that an answer counts that no host has read: the flow can be resumed, and asks
// nothing.
func TestUnheard(t *testing.T) {
	l := asked(t)
	p := personOf(l, "ann")
	p.Events = l.Events
	_, err := approve(p)
	must(t, err)
	l, err = ReadFlow(l.Engine, l.Run)
	must(t, err)
	if !l.CanResume() || l.WaitsFor(true) || l.State.Reason != "answered" {
		t.Errorf("it is %s, %s; goes on: %t", l.State.Status, l.State.Reason, l.CanResume())
	}
	v, err := Summarize(l.Engine, l.Run)
	must(t, err)
	if want := "bothy flow resume " + l.Run.ID; v.Next != want {
		t.Errorf("next is %q", v.Next)
	}
}

// TestTellRemoved checks the error for an answer to a run that is removed meanwhile.
func TestTellRemoved(t *testing.T) {
	l := asked(t)
	must(t, os.RemoveAll(l.Run.Dir()))
	_, err := l.RecordAnswer(t.Context(), personOf(l, "ann"), approve)
	if err = l.CheckRemoved(err); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("it comes to %v", err)
	}
}

// TestRecordLags checks that a stale record of a killed flow is rewritten by the next reader, but
// not while another process holds the run.
func TestRecordLags(t *testing.T) {
	l := asked(t)
	path := filepath.Join(l.Run.Dir(), "validation.json")
	good, err := os.ReadFile(path)
	must(t, err)
	if !flow.Recorded(l.Run, l.State) || !strings.Contains(string(good), `"status": "waiting"`) {
		t.Errorf("it lags at once:\n%s", good)
	}
	h, _, err := l.Run.Host()
	must(t, err)
	must(t, os.WriteFile(path, []byte(strings.ReplaceAll(string(good), "waiting", "running")), 0o600))
	read := func() string {
		t.Helper()
		_, err := ReadFlow(l.Engine, l.Run)
		must(t, err)
		text, err := os.ReadFile(path)
		must(t, err)
		return string(text)
	}
	if text := read(); text == string(good) {
		t.Error("it was written while another has the run")
	}
	h.Close()
	if text := read(); text != string(good) {
		t.Errorf("it is\n%s", text)
	}
	must(t, os.Remove(path))
	if text := read(); text != string(good) {
		t.Errorf("it is\n%s", text)
	}
}
