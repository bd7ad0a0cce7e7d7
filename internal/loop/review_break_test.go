package loop

import (
	"context"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// usedUp returns the answer of a reviewer whose allowance is used up, with a document.
func usedUp(until time.Time) Opinion {
	return Opinion{Work: Work{Verdict: spec.VerdictLimit, Error: "used\nup\n# Task", Until: until, Tokens: 2}, Document: []byte(agrees)}
}

// finished returns a runner in which the work is done in the first iteration.
func finished() *fake {
	return &fake{work: func(int) (Work, error) { return says(done) }, changes: always(1), green: always(true)}
}

// TestReviewDelayed checks that a reviewer whose allowance is used up is asked again when it has a new
// one, and that no agent works in vain meanwhile.
func TestReviewDelayed(t *testing.T) {
	for _, known := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f, began := finished(), time.Now()
			over, until := began.Add(run.UnknownWait), time.Time{}
			if known {
				over = began.Add(3 * time.Hour)
				until = over
			}
			f.opinion = func(n int) (Opinion, error) {
				if n == 1 {
					return usedUp(until), nil
				}
				if at := time.Now(); at.Before(over) {
					t.Errorf("it is asked again at %v, before %v", at, over)
				}
				return opinion(agrees), nil
			}
			s, r := carry(t, reviewed(), f)
			if s.Status != run.Completed || f.n != 1 || s.Iteration != 1 || len(f.reviews) != 3 || s.Tokens != 10+2+3+3 || s.SameLimit != 0 || !s.Until.IsZero() {
				t.Fatalf("after %d of work and %d reviews it is %+v", f.n, len(f.reviews), s)
			}
			events, err := r.Events()
			must(t, err)
			again, err := Fold(events)
			if must(t, err); !reflect.DeepEqual(again, s) {
				t.Errorf("folded anew it is\n%+v\nnot\n%+v", again, s)
			}
		})
	}
}

// TestReviewDelayedForever checks that the wait for a reviewer is as limited as that for a worker.
func TestReviewDelayedForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f := reviewed(), finished()
		p.Stall.SameLimit = 3
		f.opinion = func(int) (Opinion, error) { return usedUp(time.Now().Add(-time.Hour)), nil }
		s, r := carry(t, p, f)
		if s.Status != run.Stalled || s.Reason != "same_limit" || !strings.Contains(s.Detail, "reviewer judge") || f.n != 1 || len(f.reviews) != 3 || s.Tokens != 10+3*2 {
			t.Fatalf("after %d of work and %d reviews it is %+v", f.n, len(f.reviews), s)
		}
		f.opinion = func(int) (Opinion, error) { return opinion(agrees), nil }
		if s = goOn(t.Context(), t, p, f, r); s.Status != run.Completed || f.n != 1 {
			t.Errorf("gone on with it is %+v", s)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		p, f := reviewed(), finished()
		p.Limits.Time = spec.Duration(time.Hour)
		f.opinion = func(int) (Opinion, error) { return usedUp(time.Now().Add(100 * time.Hour)), nil }
		if s, _ := carry(t, p, f); s.Status != run.Limited || s.Reason != "time" || len(f.reviews) != 1 {
			t.Errorf("beyond its time it is %+v", s)
		}
	})
}

// TestReviewDelayedPause pauses a loop that waits for a reviewer. The reviewer is asked at once when a
// person resumes the loop; otherwise at the end of the wait, and not before.
func TestReviewDelayedPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := finished()
		p := reviewed()
		r, err := run.Create(filepath.Join(t.TempDir(), "runs"), "x", p)
		must(t, err)
		over := time.Now().Add(time.Hour)
		f.opinion = func(n int) (Opinion, error) {
			if n == 1 {
				must(t, r.Leave(run.Message{Kind: run.Pause, Actor: "ann"}))
				return usedUp(over), nil
			}
			early := time.Now().Before(over)
			if early != (n == 2) {
				t.Errorf("review %d is too early, or late", n)
			}
			if early {
				return usedUp(over), nil
			}
			return opinion(agrees), nil
		}
		if s := goOn(t.Context(), t, p, f, r); s.Status != run.Waiting || s.Reason != "paused" || !s.Until.Equal(over) {
			t.Fatalf("it is %+v", s)
		}
		if s := goOn(t.Context(), t, p, f, r); s.Status != run.Completed || f.n != 1 || len(f.reviews) != 4 {
			t.Errorf("gone on with it is %+v", s)
		}
	})
}

// TestReviewCutBudget checks that the usage of an interrupted review reduces the worker's budget.
func TestReviewCutBudget(t *testing.T) {
	p, f := reviewed(), finished()
	p.Limits.Tokens, p.Limits.USD = 100, 9
	r, err := run.Create(filepath.Join(t.TempDir(), "runs"), "x", p)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	f.opinion = func(n int) (Opinion, error) {
		switch n {
		case 1:
			cancel()
			return opinion(agrees), nil
		case 2:
			return opinion(objects), nil
		}
		return opinion(agrees), nil
	}
	if s := goOn(ctx, t, p, f, r); s.Status != run.Interrupted || s.Tokens != 13 {
		t.Fatalf("it is %+v", s)
	}
	if s := goOn(t.Context(), t, p, f, r); s.Status != run.Completed {
		t.Fatalf("it is %+v", s)
	}
	if want := (spec.Budget{Tokens: 94, USD: 8}); f.budgets[1] != want {
		t.Errorf("who works may take %+v, not %+v", f.budgets[1], want)
	}
}

// TestReviewerObjected checks the end of a loop that takes tasks: work is not done if a reviewer objects
// to it, and it is still in the files.
func TestReviewerObjected(t *testing.T) {
	for _, restores := range []bool{false, true} {
		p, r, d := desk(t, "blue", "red")
		p.Gates, p.Tasks.Restore = reviewed().Gates[:1], restores
		f := finished()
		f.work = func(n int) (Work, error) {
			if n == 2 {
				return says("not yet") // the earlier objection still counts
			}
			return says(done)
		}
		f.opinion = func(n int) (Opinion, error) { return opinion([]string{objects, agrees}[n-1]), nil }
		s := workThrough(t.Context(), t, p, f, r, d)
		want := End{Status: run.Stalled, Reason: reasonTasksFailed}
		if restores {
			want.Status = run.Completed
		}
		if s.Status != want.Status || s.Reason != want.Reason || len(s.Closed) != 1 || len(s.Left) != 1 || (len(f.restored) == 1) != restores {
			t.Errorf("with what is put back %t it is %+v", restores, s)
		}
		if restores {
			continue
		}
		f.opinion = func(int) (Opinion, error) { return opinion(agrees), nil }
		if s := workThrough(t.Context(), t, p, f, r, d); s.Status != run.Completed || s.Reason != "done" || len(s.Closed) != 2 {
			t.Errorf("tried again it is %+v", s)
		}
	}
}
