package runs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/internal/runstate/runstatetest"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

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
			plan := flowplan.Plan{Flow: f, Remove: true, Sandboxes: map[string]string{"mine": runstatetest.Sandbox(t, st, "r-mine"), "shell": store.NewID()}}
			runstatetest.Sandbox(t, st, "other")
			r, err := run.CreateFlow(st.Runs(), "", "two-2026-11-22-0001", &plan, func(string) error { return nil })
			must(t, err)
			h := runstatetest.Append(t, r, runstatetest.Event(t, run.Ready, flow.Made{}), runstatetest.Event(t, run.Began, nil), runstatetest.Event(t, run.Ended, flow.End{Status: status, Reason: "done"}))
			l, err := runstate.ReadFlow(e, r)
			if must(t, err); len(l.LeftBehind()) > 0 {
				t.Errorf("%s: it is being removed, and said to be left", status)
			}
			h.Close()
			v, err := runstate.Summarize(e, r)
			must(t, err)
			if want := "bothy flow resume " + r.ID; v.Next != want || v.Rank() != 1 {
				t.Errorf("%s: what is next is %q, in row %d", status, v.Next, v.Rank())
			}
			l, err = runstate.ReadFlow(e, r)
			must(t, err)
			if !slices.Equal(l.LeftBehind(), []string{"r-mine"}) {
				t.Errorf("%s: left is %q", status, l.LeftBehind())
			}
			out, err := os.Create(filepath.Join(t.TempDir(), "out"))
			must(t, err)
			a := newApp(&cmdline.App{Console: &console.Console{Out: out, Err: out}})
			must(t, a.PrintStatus(l))
			if text, err := os.ReadFile(out.Name()); err != nil || !strings.Contains(string(text), "r-mine, which it was to remove: bothy flow resume") {
				t.Errorf("%s: it stands as\n%s", status, text)
			}
			if removed {
				must(t, a.launcher(e).Remove(t.Context(), l))
			} else {
				end, err := a.launcher(e).Resume(t.Context(), l, nil)
				must(t, err)
				err = a.printEnd(end)
				by, is := errors.AsType[*spec.Exited](err)
				if code := l.State.ExitCode(); code == 0 && err != nil || code != 0 && (!is || by.Code != code) {
					t.Errorf("%s: it ends with %v", status, err)
				}
				if l, err = runstate.ReadFlow(e, r); err != nil || len(l.LeftBehind()) > 0 {
					t.Errorf("%s: %q, %v", status, l.LeftBehind(), err)
				}
			}
			if list := runstatetest.Names(t, st); !slices.Equal(list, []string{"other"}) {
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
	main := runstatetest.Sandbox(t, st, "r")
	made := loop.Made{Sandbox: "r", Places: []loop.Place{
		{Seat: loop.Seat{Worker: 1}, ID: runstatetest.Sandbox(t, st, "r-1"), Sandbox: "r-1"},
		{Seat: loop.Seat{Agent: "other"}, ID: runstatetest.Sandbox(t, st, "r-other"), Sandbox: "r-other"},
	}}
	r, err := run.Create(st.Runs(), "work-2026-11-22-0001", &loopplan.Plan{Sandbox: main, Workers: 2})
	must(t, err)
	h := runstatetest.Append(t, r, runstatetest.Event(t, run.Ready, made), runstatetest.Event(t, run.Began, nil), runstatetest.Event(t, run.Ended, loop.End{Status: run.Completed, Reason: "done"}))
	h.Close()
	v, err := runstate.Summarize(e, r)
	must(t, err)
	if want := "bothy loop resume " + r.ID; v.Next != want {
		t.Errorf("what is next is %q", v.Next)
	}
	l, err := runstate.ReadLoop(e, r)
	must(t, err)
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	must(t, err)
	defer out.Close()
	a := newApp(&cmdline.App{Console: &console.Console{Out: out, Err: out}})
	end, err := a.launcher(e).Resume(t.Context(), l, nil)
	must(t, err)
	must(t, a.printEnd(end))
	if list := runstatetest.Names(t, st); !slices.Equal(list, []string{"r", "r-other"}) || len(l.LeftBehind()) != 0 {
		t.Errorf("there are %q", list)
	}
}
