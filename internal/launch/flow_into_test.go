package launch

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
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

// intoPlan returns the plan of a flow whose files are to be in a directory.
func intoPlan(dir string) *FlowPlan { return &FlowPlan{FlowRequest: FlowRequest{Into: dir}} }

// TestGone checks a flow whose directory was deleted. Its sandboxes stay known, and the next run
// with a directory in that place removes them. The list omits such a flow without sandboxes.
func TestGone(t *testing.T) {
	st, err := store.Open(t.TempDir())
	must(t, err)
	f, err := flowplan.Parse("two.yaml", []byte("name: two\nsteps:\n- {id: a, command: 'true'}\n"))
	must(t, err)
	e := &engine.Engine{Store: st}
	l, _ := launcherOf(t, e)
	into := filepath.Join(t.TempDir(), "place")
	runstatetest.Sandbox(t, st, "other")
	for _, has := range []bool{true, false} {
		pl := intoPlan(into)
		must(t, l.settleInto(t.Context(), pl))
		plan := flowplan.Plan{Flow: f, Remove: true, Sandboxes: map[string]string{"shell": store.NewID()}}
		if has {
			plan.Sandboxes["shell"] = runstatetest.Sandbox(t, st, "r-shell")
		}
		r, err := run.CreateFlow(st.Runs(), pl.Into, "two-2026-11-22-0001", &plan, func(dir string) error { return flow.Fill(dir, nil) })
		must(t, err)
		runstatetest.Append(t, r, runstatetest.Event(t, run.Ready, flow.Made{}), runstatetest.Event(t, run.Began, nil), runstatetest.Event(t, run.Ended, flow.End{Status: run.Failed, Reason: "step"})).Close()
		next := map[bool]string{true: "resume ", false: "rm "}[has] // without its sandbox it cannot be resumed
		if v, err := runstate.Summarize(e, r); err != nil || v.Next != "bothy flow "+next+r.ID {
			t.Errorf("while it is there it is %+v, %v", v, err)
		}
		must(t, os.RemoveAll(into)) // a cleanup with find deletes everything old
		list, err := runstate.SummarizeAll(e, func(id string, err error) { t.Error(id, err) })
		must(t, err)
		if len(list) > 0 != has || has && (list[0].Next != "bothy flow rm "+r.ID || list[0].Rank() != 1) {
			t.Errorf("with a sandbox: %t; there are %+v", has, list)
		}
		of, err := runstate.ReadFlow(e, r)
		must(t, err)
		if of.CanResume() || of.CanStop() || !strings.Contains(of.State.Detail, "was removed") {
			t.Errorf("it stands as %+v", of.State)
		}
		if err := of.CheckOpen(); !errors.Is(err, spec.ErrNotFound) || strings.Contains(spec.Hint(err), "r-shell") != has {
			t.Errorf("who goes on is told %v; %s", err, spec.Hint(err))
		}
		if _, err := os.Lstat(into); err == nil {
			t.Error("who looks at it makes its directory anew")
		}
	}
	must(t, l.settleInto(t.Context(), intoPlan(into)))
	if list, err := run.ListOf(st.Runs(), ""); err != nil || len(list) > 0 {
		t.Errorf("there are %v, %v", list, err)
	}
	if got := runstatetest.Names(t, st); !slices.Equal(got, []string{"other"}) {
		t.Errorf("there are the sandboxes %q", got)
	}
	if err := l.settleInto(t.Context(), intoPlan(st.Runs())); !errors.Is(err, spec.ErrUsage) {
		t.Errorf("in the state directory: %v", err)
	}
}

// TestAway checks that a flow on a disk that is not mounted is kept, with its sandbox, and that the
// next run there prints a note.
func TestAway(t *testing.T) {
	st, err := store.Open(t.TempDir())
	must(t, err)
	f, err := flowplan.Parse("two.yaml", []byte("name: two\nsteps:\n- {id: a, command: 'true'}\n"))
	must(t, err)
	e := &engine.Engine{Store: st}
	l, host := launcherOf(t, e)
	pl := intoPlan(filepath.Join(t.TempDir(), "place"))
	must(t, l.settleInto(t.Context(), pl))
	plan := flowplan.Plan{Flow: f, Remove: true, Sandboxes: map[string]string{"shell": runstatetest.Sandbox(t, st, "r-shell")}}
	r, err := run.CreateFlow(st.Runs(), pl.Into, "two-2026-11-22-0001", &plan, func(dir string) error { return flow.Fill(dir, nil) })
	must(t, err)
	runstatetest.Append(t, r, runstatetest.Event(t, run.Ready, flow.Made{}), runstatetest.Event(t, run.Began, nil), runstatetest.Event(t, run.Ended, flow.End{Status: run.Failed, Reason: "step"})).Close()
	about, written := filepath.Join(st.Runs(), r.ID, "run.json"), map[string]any{}
	must(t, store.ReadJSON(about, &written))
	written["place"] = map[string]any{"device": 0, "inode": 0}
	must(t, store.WriteJSON(about, written))
	must(t, os.RemoveAll(r.Dir()))

	must(t, l.settleInto(t.Context(), intoPlan(pl.Into)))
	if got := runstatetest.Names(t, st); !slices.Equal(got, []string{"r-shell"}) {
		t.Errorf("there are the sandboxes %q", got)
	}
	if got := host.notes.String(); !strings.Contains(got, pl.Into+" is on another file system") || !strings.Contains(got, "mount the disk") {
		t.Errorf("it says %q", got)
	}
	of, err := runstate.ReadFlow(e, r)
	must(t, err)
	if err := of.CheckOpen(); !errors.Is(err, spec.ErrNotFound) || of.State.Status != run.Failed || of.State.Detail != err.Error() {
		t.Errorf("it stands as %+v; who goes on is told %v", of.State, err)
	}
	if v, err := runstate.Summarize(e, r); err != nil || v.Next != "bothy flow resume "+r.ID {
		t.Errorf("it is %+v, %v", v, err)
	}
}

// TestWritesInto checks that a flow cannot write to its run's files, nor to a directory around them.
func TestWritesInto(t *testing.T) {
	for _, c := range []struct {
		m       spec.Mount
		mode    string
		refused bool
	}{
		{spec.Mount{Source: "/w"}, "", true},
		{spec.Mount{Source: "/w/other"}, "", false},
		{spec.Mount{Source: "/w"}, spec.WorkspaceReview, false},
		{spec.Mount{Source: "/w/place"}, "", true},
		{spec.Mount{Source: "/w/place/run"}, "", true},
		{spec.Mount{Source: "/w/place", ReadOnly: true}, "", false},
		{spec.Mount{Source: "/w/place"}, spec.WorkspaceReview, false},
	} {
		sb := &spec.Sandbox{Workspaces: []spec.Mount{c.m}, WorkspaceMode: c.mode}
		if err := writesInto("/w/place", sb); (err != nil) != c.refused {
			t.Errorf("%+v, %s: %v", c.m, c.mode, err)
		}
	}
}

// TestIntoWritten checks that a directory for runs is refused if a sandbox writes to it, or to a
// link on the way. A sandbox created after that check keeps the run from starting.
func TestIntoWritten(t *testing.T) {
	st, err := store.Open(t.TempDir())
	must(t, err)
	base := t.TempDir()
	l, _ := launcherOf(t, &engine.Engine{Store: st})
	proj := filepath.Join(base, "proj")
	must(t, os.MkdirAll(proj, 0o755))
	must(t, os.Symlink("../away", filepath.Join(proj, "runs")))
	must(t, os.Mkdir(filepath.Join(base, "away"), 0o755))
	sb := &spec.Sandbox{Version: spec.Version, ID: store.NewID(), Name: "box", Agent: "shell", Template: spec.TemplateHost, Workspaces: []spec.Mount{{Source: proj}}}
	pl := intoPlan(filepath.Join(proj, "sub"))
	must(t, l.settleInto(t.Context(), pl))
	_, err = st.Create(sb)
	must(t, err)
	if err := (&flowMaking{Launcher: l, plan: pl}).fillInputs(t.TempDir()); !errors.Is(err, spec.ErrDenied) {
		t.Errorf("with a sandbox that was made meanwhile: %v", err)
	}
	for _, into := range []string{proj, filepath.Join(proj, "new"), filepath.Join(proj, "runs"), filepath.Join(proj, "runs", "x")} {
		if err := l.settleInto(t.Context(), intoPlan(into)); !errors.Is(err, spec.ErrDenied) {
			t.Errorf("%s: %v", into, err)
		}
	}
	for _, dir := range []string{filepath.Join(proj, "new"), filepath.Join(base, "away", "x")} {
		if _, err := os.Lstat(dir); err == nil {
			t.Errorf("%s was made", dir)
		}
	}
}
