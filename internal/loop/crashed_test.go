package loop

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// TestFell checks an iteration whose sandbox crashes under the agent. It is repeated with the same
// hints, and its usage counts; but only a limited number of times.
func TestFell(t *testing.T) {
	fall := func() (Work, error) {
		return Work{Tokens: 3}, fmt.Errorf("%w: the sandbox ended", ErrCrashed)
	}
	f := &fake{changes: always(1), green: func(n int) bool { return n >= 6 }}
	f.work = func(n int) (Work, error) {
		if n == 1 || n == 2 || n == 4 || n == 5 {
			return fall()
		}
		return says(done)
	}
	p := plan()
	s, _ := carry(t, p, f)
	if s.Status != run.Completed || s.Iteration != 2 || s.Repeats != 4 || f.n != 6 || s.Tokens != 4*3+2*10 || s.Crashes != 0 {
		t.Errorf("after %d tries it is %+v", f.n, s)
	}
	if f.prompts[0] != f.prompts[2] || len(f.since) != 3 { // a crash leaves no checkpoint
		t.Errorf("there are %d checkpoints", len(f.since))
	}
	f = &fake{changes: always(1), green: always(true), work: func(int) (Work, error) { return fall() }}
	s, r := carry(t, p, f)
	if s.Status != run.Failed || s.Reason != reasonCrashed || s.ExitCode() != 1 || f.n != maxCrashes || s.Iteration != 1 || s.Final() {
		t.Fatalf("for ever, after %d tries it is %+v", f.n, s)
	}
	if !strings.Contains(s.Detail, "3 times in a row") || !strings.Contains(s.Detail, "the sandbox ended") {
		t.Errorf("it says %q", s.Detail)
	}
	f.work = func(n int) (Work, error) { return says(done) }
	if s = goOn(t.Context(), t, p, f, r); s.Status != run.Completed || s.Iteration != 1 {
		t.Errorf("gone on with it is %+v", s)
	}
}

// TestFellInterrupted checks that a crash does not count if a user has ended the loop by then.
func TestFellInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	f := &fake{changes: always(1), green: always(true)}
	f.work = func(int) (Work, error) {
		cancel(&spec.Exited{Code: 130})
		return Work{Tokens: 3}, ErrCrashed
	}
	p, r, d := desk(t, "one")
	s := workThrough(ctx, t, p, f, r, d)
	if s.Status != run.Interrupted || s.Crashes != 0 || s.Tokens != 3 {
		t.Errorf("it is %+v", s)
	}
}

// TestTeamFell checks the same for several workers, each for itself.
func TestTeamFell(t *testing.T) {
	p, r, d := hire(t, 2, "a", "b")
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		falls := map[string]int{"bd-a": 2, "bd-b": 1}
		b.work = func(_ *bench, _ Seat, id string, f files) (Work, error) {
			if falls[id]--; falls[id] >= 0 {
				return Work{}, ErrCrashed
			}
			f[id] = "done"
			return says(done)
		}
		s, err := teamwork(t.Context(), t, p, b, r, d, nil)
		must(t, err)
		if s.Status != run.Completed || s.Iteration != 2 || s.Repeats != 3 || len(s.Closed) != 2 {
			t.Errorf("it is %+v", s)
		}
	})
	p, r, d = hire(t, 2, "a", "b")
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.work = func(_ *bench, _ Seat, id string, f files) (Work, error) {
			if id == "bd-a" {
				return Work{}, ErrCrashed
			}
			f[id] = "done"
			return says(done)
		}
		s, err := teamwork(t.Context(), t, p, b, r, d, nil)
		must(t, err)
		if s.Status != run.Failed || s.Reason != reasonCrashed || s.ExitCode() != 1 {
			t.Errorf("for ever it is %+v", s)
		}
	})
}
