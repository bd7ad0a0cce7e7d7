package runs

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// house makes a sandbox that was never started.
func house(t *testing.T, st *store.Store, name string) (id string) {
	t.Helper()
	sb := &spec.Sandbox{Version: spec.Version, ID: store.NewID(), Name: name, Agent: "shell", Template: spec.TemplateHost}
	_, err := st.Create(sb)
	must(t, err)
	return sb.ID
}

// names returns the names of all sandboxes.
func names(t *testing.T, st *store.Store) (list []string) {
	t.Helper()
	all, err := st.List()
	must(t, err)
	for _, sb := range all {
		list = append(list, sb.Name)
	}
	slices.Sort(list)
	return list
}

// past records events in a run and returns its host.
func past(t *testing.T, r *run.Run, events ...run.Event) *run.Host {
	t.Helper()
	h, _, err := r.Host()
	must(t, err)
	for _, ev := range events {
		_, err = h.Append(ev.Type, run.ActorHost, ev.Data)
		must(t, err)
	}
	return h
}

// event returns an event for past.
func event(t *testing.T, kind string, data any) run.Event {
	t.Helper()
	b, err := json.Marshal(data)
	must(t, err)
	return run.Event{Type: kind, Data: b}
}

// TestFlowLeft checks a flow whose process was killed between its end and the removal of its
// sandboxes. The run reports them, and resuming or removing it removes them and no others.
func TestFlowLeft(t *testing.T) {
	for _, removed := range []bool{false, true} {
		for _, status := range []run.Status{run.Completed, run.Limited, run.Cancelled} {
			st, err := store.Open(t.TempDir())
			must(t, err)
			f, err := flowplan.Parse("two.yaml", []byte("name: two\nsteps:\n- {id: a, command: 'true'}\n"))
			must(t, err)
			e := &engine.Engine{Store: st}
			plan := flowplan.Plan{Flow: f, Remove: true, Sandboxes: map[string]string{"mine": house(t, st, "r-mine"), "shell": store.NewID()}}
			house(t, st, "other")
			r, err := run.CreateFlow(st.Runs(), "two-2026-11-22-0001", &plan, func(string) error { return nil })
			must(t, err)
			h := past(t, r, event(t, run.Ready, flow.Made{}), event(t, run.Began, nil), event(t, run.Ended, flow.End{Status: status, Reason: "done"}))
			v, err := RunViewOf(e, r)
			if must(t, err); v.left {
				t.Errorf("%s: it is being removed, and said to be left", status)
			}
			h.Close()
			v, err = RunViewOf(e, r)
			must(t, err)
			if want := "bothy flow resume " + r.ID; v.Next != want || v.rank() != 1 {
				t.Errorf("%s: what is next is %q, in row %d", status, v.Next, v.rank())
			}
			l, err := readFlow(e, r)
			must(t, err)
			rows := l.rows()
			if row := rows[len(rows)-1]; row[0] != "left" || !slices.Equal(l.left(), []string{"r-mine"}) {
				t.Errorf("%s: it stands %q, %q", status, row, l.left())
			}
			out, err := os.Create(filepath.Join(t.TempDir(), "out"))
			must(t, err)
			a := &app{&cmdline.App{Console: &console.Console{Out: out, Err: out}}}
			if removed {
				must(t, a.removeRun(t.Context(), l))
			} else {
				h, _, err := r.Host()
				must(t, err)
				err = a.tidyRun(t.Context(), l, h, l.left())
				by, is := errors.AsType[*spec.Exited](err)
				if code := l.state.ExitCode(); code == 0 && err != nil || code != 0 && (!is || by.Code != code) {
					t.Errorf("%s: it ends with %v", status, err)
				}
				if v, err = RunViewOf(e, r); err != nil || v.left {
					t.Errorf("%s: %+v, %v", status, v, err)
				}
			}
			if list := names(t, st); !slices.Equal(list, []string{"other"}) {
				t.Errorf("%s: there are %q", status, list)
			}
			must(t, out.Close())
		}
	}
}

// TestLoopLeft checks the same for a loop with several workers.
func TestLoopLeft(t *testing.T) {
	st, err := store.Open(t.TempDir())
	must(t, err)
	e := &engine.Engine{Store: st}
	main := house(t, st, "r")
	made := loop.Made{Sandbox: "r", Places: []loop.Place{
		{Seat: loop.Seat{Worker: 1}, ID: house(t, st, "r-1"), Sandbox: "r-1"},
		{Seat: loop.Seat{Agent: "other"}, ID: house(t, st, "r-other"), Sandbox: "r-other"},
	}}
	r, err := run.Create(st.Runs(), "work-2026-11-22-0001", &loopplan.Plan{Sandbox: main, Workers: 2})
	must(t, err)
	h := past(t, r, event(t, run.Ready, made), event(t, run.Began, nil), event(t, run.Ended, loop.End{Status: run.Completed, Reason: "done"}))
	h.Close()
	v, err := RunViewOf(e, r)
	must(t, err)
	if want := "bothy loop resume " + r.ID; v.Next != want {
		t.Errorf("what is next is %q", v.Next)
	}
	l, err := readLoop(e, r)
	must(t, err)
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	must(t, err)
	defer out.Close()
	h, _, err = r.Host()
	must(t, err)
	must(t, (&app{&cmdline.App{Console: &console.Console{Out: out, Err: out}}}).tidyRun(t.Context(), l, h, l.left()))
	if list := names(t, st); !slices.Equal(list, []string{"r", "r-other"}) || len(l.left()) != 0 {
		t.Errorf("there are %q", list)
	}
}

// TestFlowAnew checks that resuming a completed flow with skipped steps recreates its sandboxes,
// even if an earlier attempt was killed after it recreated some.
func TestFlowAnew(t *testing.T) {
	for name, left := range map[string]func(t *testing.T, e *engine.Engine, ids map[string]string){
		"all are removed": func(*testing.T, *engine.Engine, map[string]string) {},
		"one is made, no more": func(t *testing.T, e *engine.Engine, ids map[string]string) {
			sb := &spec.Sandbox{Version: spec.Version, ID: ids["mine"], Name: "r-mine", Agent: "shell", Template: spec.TemplateHost}
			_, err := e.Store.Create(sb)
			must(t, err)
		},
	} {
		st, err := store.Open(t.TempDir())
		must(t, err)
		e := &engine.Engine{Store: st}
		f, err := flowplan.Parse("two.yaml", []byte("name: two\nsteps:\n- {id: a, command: 'true'}\n"))
		must(t, err)
		plan := flowplan.Plan{Flow: f, Remove: true, Sandboxes: map[string]string{"mine": house(t, st, "r-mine"), "shell": house(t, st, "r-shell")}}
		rules := []byte("version: 1\ndefault: deny\n")
		must(t, os.WriteFile(st.Sandbox(plan.Sandboxes["mine"]).Policy(), rules, 0o600))
		r, err := run.CreateFlow(st.Runs(), "two-2026-11-22-0001", &plan, func(string) error { return nil })
		must(t, err)
		past(t, r, event(t, run.Ready, flow.Made{}), event(t, run.Began, nil), event(t, run.Ended, flow.End{Status: run.Completed, Reason: flow.ReasonSkipped})).Close()
		must(t, putAway(t.Context(), e, &plan))
		if list := names(t, st); len(list) != 0 {
			t.Errorf("%s: at the end there are %q", name, list)
		}
		left(t, e, plan.Sandboxes)
		l, err := readFlow(e, r)
		must(t, err)
		for range 2 { // the second call has nothing to make
			must(t, l.anew(t.Context()))
		}
		made, err := l.workplaces()
		must(t, err)
		if got, err := os.ReadFile(st.Sandbox(made["mine"].ID).Policy()); string(got) != string(rules) || len(made) != 2 {
			t.Errorf("%s: there are %q, with the rules %q: %v", name, names(t, st), got, err)
		}
		must(t, cancelRun(l))
		if list := names(t, st); len(list) != 0 || l.state.Status != run.Cancelled {
			t.Errorf("%s: it is %s, and there are %q", name, l.state.Status, list)
		}
	}
}
