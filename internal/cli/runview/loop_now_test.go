package runview

import (
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/loop/taskqueue"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// TestWhatNow checks that the end of a loop prints how to get its changes, and how to resume it.
func TestWhatNow(t *testing.T) {
	p := &loopplan.Plan{Tasks: &loopplan.Tasks{Project: "/my 'p'"}}
	open := loop.State{Result: run.Result{Status: run.Waiting, Reason: loop.ReasonTasksOpen}, HeldUp: []taskqueue.Open{{Task: "bd-3"}}}
	for _, c := range []struct {
		mode string
		s    loop.State
		want string
	}{
		{spec.WorkspaceLive, loop.State{Result: run.Result{Status: run.Completed}, Keep: &loop.Keep{}}, ""},
		{spec.WorkspaceReview, loop.State{Result: run.Result{Status: run.Completed}}, ""},
		{spec.WorkspaceReview, loop.State{Result: run.Result{Status: run.Completed}, Keep: &loop.Keep{}}, "bothy diff box, bothy apply box"},
		{spec.WorkspaceReview, loop.State{Result: run.Result{Status: run.Limited, Reason: "tokens"}, Workers: []*loop.State{{}}}, "bothy diff box, bothy apply box\nto go on, with more than is used: bothy loop resume r-1 --max-tokens N"},
		{spec.WorkspaceClone, loop.State{Result: run.Result{Status: run.Completed}, Keep: &loop.Keep{}}, "bothy fetch box"},
		{spec.WorkspaceReview, loop.State{Result: run.Result{Status: run.Stalled, Reason: "unchanged"}}, "to go on: bothy loop resume r-1"},
		{spec.WorkspaceLive, loop.State{Result: run.Result{Status: run.Waiting, Reason: "question"}}, "bothy loop hint r-1 'TEXT', bothy loop resume r-1"},
		{spec.WorkspaceLive, open, `bothy task show -C '/my '\''p'\''' bd-3` + "\nto go on when they are closed, or can be taken: bothy loop resume r-1"},
		{spec.WorkspaceLive, loop.State{Result: run.Result{Status: run.Stalled}, Hints: []string{"a", "b"}}, "resume r-1\n2 hints that no iteration was told: for the next one, if you go on"},
		{spec.WorkspaceLive, loop.State{Result: run.Result{Status: run.Limited, Reason: "iterations"}, Hints: []string{"a"}}, "resume r-1 --max-iterations N\n1 hint that no iteration was told: for the next one, if you go on"},
		{spec.WorkspaceLive, loop.State{Result: run.Result{Status: run.Aborted}, Hints: []string{"a"}}, "1 hint that no iteration was told: bothy loop rewind r-1 N goes on from an earlier one, and the next is told"},
		{spec.WorkspaceLive, loop.State{Result: run.Result{Status: run.Cancelled}, Hints: []string{"a"}}, "1 hint that no iteration was told: bothy loop run --add-context 'TEXT' has another loop hear it"},
		{spec.WorkspaceLive, loop.State{Result: run.Result{Status: run.Aborted}, Hints: []string{"a"}, Workers: []*loop.State{{}}}, "bothy loop run --add-context 'TEXT' has another loop hear it"},
		{spec.WorkspaceLive, loop.State{Result: run.Result{Status: run.Waiting, Reason: "paused"}, Hints: []string{"a"}}, "to go on: bothy loop resume r-1"},
	} {
		sb := &spec.Sandbox{Name: "box", WorkspaceMode: c.mode, Workspaces: []spec.Mount{{Source: "/p", Target: "/p"}}}
		got := strings.Join(NextSteps("r-1", sb, p, &c.s), "\n")
		if got != c.want && (c.want == "" || !strings.HasSuffix(got, c.want)) {
			t.Errorf("%s, %s: %q, want %q", c.mode, c.s.Status, got, c.want)
		}
	}
}
