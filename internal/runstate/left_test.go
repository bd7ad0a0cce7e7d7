package runstate

import (
	"os"
	"testing"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runstate/runstatetest"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

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
		plan := flowplan.Plan{Flow: f, Remove: true, Sandboxes: map[string]string{"mine": runstatetest.Sandbox(t, st, "r-mine"), "shell": runstatetest.Sandbox(t, st, "r-shell")}}
		rules := []byte("version: 1\ndefault: deny\n")
		must(t, os.WriteFile(st.Sandbox(plan.Sandboxes["mine"]).Policy(), rules, 0o600))
		r, err := run.CreateFlow(st.Runs(), "", "two-2026-11-22-0001", &plan, func(string) error { return nil })
		must(t, err)
		runstatetest.Append(t, r, runstatetest.Event(t, run.Ready, flow.Made{}), runstatetest.Event(t, run.Began, nil), runstatetest.Event(t, run.Ended, flow.End{Status: run.Completed, Reason: flow.ReasonSkipped})).Close()
		must(t, putAway(t.Context(), e, &plan))
		if list := runstatetest.Names(t, st); len(list) != 0 {
			t.Errorf("%s: at the end there are %q", name, list)
		}
		left(t, e, plan.Sandboxes)
		l, err := ReadFlow(e, r)
		must(t, err)
		for range 2 { // the second call has nothing to make
			must(t, l.remakeSandboxes(t.Context()))
		}
		made, err := l.Workplaces()
		must(t, err)
		if got, err := os.ReadFile(st.Sandbox(made["mine"].ID).Policy()); string(got) != string(rules) || len(made) != 2 {
			t.Errorf("%s: there are %q, with the rules %q: %v", name, runstatetest.Names(t, st), got, err)
		}
		must(t, Cancel(l))
		if list := runstatetest.Names(t, st); len(list) != 0 || l.State.Status != run.Cancelled {
			t.Errorf("%s: it is %s, and there are %q", name, l.State.Status, list)
		}
	}
}
