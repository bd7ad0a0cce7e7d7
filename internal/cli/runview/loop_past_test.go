package runview

import (
	"testing"

	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/run"
)

// TestStuck checks that a stuck loop is described as long as a person can act on it.
func TestStuck(t *testing.T) {
	p := &loopplan.Plan{Stall: loopplan.Stall{Unchanged: 3, SameError: 5}}
	for _, c := range []struct {
		s    loop.State
		want string
	}{
		{loop.State{Result: run.Result{Status: run.Running}, Unchanged: 1, SameRed: 1, SameError: 1, Asked: 1}, ""},
		{loop.State{Result: run.Result{Status: run.Running}, Unchanged: 2}, "no file was changed in 2 iterations, of 3"},
		{loop.State{Result: run.Result{Status: run.Waiting}, SameRed: 4, SameError: 2}, "the same gates said the same 4 times; the agent failed 2 times in the same way, of 5"},
		{loop.State{Result: run.Result{Status: run.Interrupted}, Asked: 2}, "2 iterations in a row ended with a question"},
		{loop.State{Result: run.Result{Status: run.Stalled}, Unchanged: 3}, ""},
		{loop.State{Result: run.Result{Status: run.Limited}, SameRed: 3}, ""},
	} {
		if got := stuckText(p, &c.s); got != c.want {
			t.Errorf("%+v: %q", c.s, got)
		}
	}
	if got := promiseText(&loopplan.Plan{Promise: "DONE"}) + "; " + promiseText(&loopplan.Plan{Promise: "DONE", Abort: "STUCK"}); got != "DONE; DONE, or to give up STUCK" {
		t.Errorf("%q", got)
	}
}
