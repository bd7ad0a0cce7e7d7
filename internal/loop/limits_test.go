package loop

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// TestRaise checks that a loop that reached a limit continues with a higher one: its usage still counts.
// The new limit survives a crash.
func TestRaise(t *testing.T) {
	tokens, usd, n, any := int64(45), 4.5, 12, int64(0)
	for name, c := range map[string]struct {
		set        func(*loopplan.Plan)
		low, limit run.Limits
		status     run.Status
		reason     string
		iterations int
	}{
		"tokens":     {func(p *loopplan.Plan) { p.Limits.Tokens = 25 }, run.Limits{USD: &usd}, run.Limits{Tokens: &tokens}, run.Limited, "tokens", 5},
		"cost":       {func(p *loopplan.Plan) { p.Limits.USD = 2 }, run.Limits{Tokens: &tokens}, run.Limits{USD: &usd}, run.Limited, "cost", 5},
		"iterations": {func(p *loopplan.Plan) { p.Limits.MaxIterations = 2 }, run.Limits{Tokens: &tokens}, run.Limits{Iterations: &n}, run.Completed, "done", 8},
		"any":        {func(p *loopplan.Plan) { p.Limits.Tokens = 25 }, run.Limits{Iterations: &n}, run.Limits{Tokens: &any}, run.Completed, "done", 8},
	} {
		t.Run(name, func(t *testing.T) {
			p := plan()
			p.Stall = loopplan.Stall{}
			c.set(p)
			f := &fake{work: func(int) (Work, error) { return says(done) }, changes: func(int) int { return 1 }, green: func(n int) bool { return n >= 8 }}
			s, r := carry(t, p, f)
			if s.Status != run.Limited || Reached(p, s) == nil {
				t.Fatalf("it is %s (%s), reached: %+v", s.Status, s.Reason, Reached(p, s))
			}
			low := *p
			low.Raise(&c.low)
			if end := Reached(&low, s); end == nil || end.Reason != s.Reason {
				t.Errorf("another limit is another: %+v", end)
			}
			h, _, err := r.Host()
			must(t, err)
			_, err = h.Append(run.Raised, "me", c.limit)
			must(t, err)
			h.Close() // and the process dies
			events, err := r.Events()
			must(t, err)
			raised, err := run.Raises(events)
			must(t, err)
			p.Raise(raised)
			if s, err = Fold(events); err != nil || s.Status != run.Limited || Reached(p, s) != nil {
				t.Fatalf("it is %+v, %v; reached: %+v", s, err, Reached(p, s))
			}
			s = goOn(context.Background(), t, p, f, r)
			if s.Status != c.status || s.Reason != c.reason || s.Iteration != c.iterations || f.n != c.iterations || s.Tokens != int64(10*c.iterations) {
				t.Errorf("%s (%s) after %d iterations and %d tokens, %d of work", s.Status, s.Reason, s.Iteration, s.Tokens, f.n)
			}
		})
	}
}

// TestRaiseNothing checks that limits without a new value stay, and that time without a process does not
// count.
func TestRaiseNothing(t *testing.T) {
	p := plan()
	was := *p
	p.Raise(nil)
	p.Raise(&run.Limits{})
	if !reflect.DeepEqual(*p, was) {
		t.Errorf("it is %+v", p)
	}
	at := time.Now()
	s, err := Fold([]run.Event{
		{Seq: 1, Time: at, Type: run.Began},
		{Seq: 2, Time: at.Add(time.Minute), Type: Hinted, Data: []byte("{}")}, // here it is killed
		{Seq: 3, Time: at.Add(time.Hour), Type: run.Raised, Data: []byte(`{"max_iterations":4}`)},
		{Seq: 4, Time: at.Add(2 * time.Hour), Type: run.Began},
	})
	if must(t, err); s.Elapsed != spec.Duration(time.Minute) {
		t.Errorf("it took %s", time.Duration(s.Elapsed))
	}
}

// TestReached checks an iteration without a result, and one with a result.
func TestReached(t *testing.T) {
	p := plan()
	p.Limits.MaxIterations = 1
	for step, reached := range map[string]bool{Judged: true, "": true, Kept: false, Worked: false, Iteration: false} {
		alone := &State{Result: run.Result{Status: run.Limited}, Iteration: 1, step: step}
		team := &State{Result: run.Result{Status: run.Limited}, Iteration: 1, Workers: []*State{{step: Judged}, {step: step}}}
		if a, b := Reached(p, alone) != nil, Reached(p, team) != nil; a != reached || b != reached {
			t.Errorf("%q: %v, of several %v", step, a, b)
		}
	}
	if end := Reached(p, &State{Result: run.Result{Status: run.Waiting}, Iteration: 1, step: Judged}); end != nil {
		t.Errorf("who was paused is judged first: %+v", end)
	}
	if end := Exhausted(p, &State{Result: run.Result{Status: run.Stalled}, Iteration: 1, step: Judged}); end == nil {
		t.Error("one that has stalled has no iteration left")
	}
	agrees := &State{Result: run.Result{Status: run.Limited}, Iteration: 1, step: Judged, Work: &Work{Verdict: spec.VerdictOK, Done: true}, Verdict: &Verdict{}, changed: true}
	if end := Reached(p, agrees); end != nil {
		t.Errorf("a reviewer is to be asked yet: %+v", end)
	}
	if agrees.Hints = []string{"more"}; Reached(p, agrees) == nil {
		t.Error("a hint wants an iteration")
	}
}
