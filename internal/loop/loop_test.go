package loop

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/racetest"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// plan returns a valid plan.
func plan() *loopplan.Plan {
	return &loopplan.Plan{
		Agent: "mine", Prompt: "work", Template: loopplan.DefaultTemplate, Promise: "COMPLETE", Abort: "NO", Until: []string{"true"},
		Limits: loopplan.Limits{MaxIterations: 10, Gate: spec.Duration(time.Minute)}, Stall: loopplan.UsualStall,
	}
}

// fake is a runner whose results are set by the test.
type fake struct {
	work    func(n int) (Work, error)
	changes func(n int) int
	whole   func(n int) int // files that differ from the beginning; nil: some
	counted int64
	green   func(n int) bool
	prompts []string
	models  []string
	budgets []spec.Budget
	n       int
	since   []int64
	begun   []Seat
	seats   []Seat
	kept    []Seat
	rest    []int64
	took    float64 // by the gates, in seconds
	at      int     // the last try that was kept: without a new one no file changes
	people  int     // files that people have changed since then
	ahead   []int   // iterations after which the next one was prepared
	cut     []int   // iterations in which a preparation had been cancelled before
	getting context.Context

	opinion func(n int) (Opinion, error)
	reviews []ReviewJob

	restored []int64
	refuses  error
	beneath  []string

	forgotten map[int64]bool // checkpoints that a person has removed

	gone   map[Seat]bool // seats whose place a person has removed
	remade []Seat

	spoilt  bool  // protected files have changed
	putBack []int // tries after which files were put back
}

var _ Runner = (*fake)(nil)

func (f *fake) Work(_ context.Context, job Job) (Work, error) {
	f.n++
	if f.getting != nil && f.getting.Err() != nil {
		f.cut = append(f.cut, f.n)
	}
	f.prompts = append(f.prompts, job.Prompt)
	f.models = append(f.models, job.Model)
	f.budgets = append(f.budgets, job.Budget)
	f.seats, f.rest = append(f.seats, job.Seat), append(f.rest, job.Rest.Tokens)
	w, err := f.work(f.n)
	if f.gone[job.Seat] {
		return Work{Tokens: w.Tokens}, errGone
	}
	return w, err
}

// errGone is the error for a missing place.
var errGone = errors.New("it was removed")

func (f *fake) Gone(seat Seat) bool { return f.gone[seat] }

func (f *fake) Remake(_ context.Context, seat Seat, _ []Place, noted func(Place) error) (Place, error) {
	p := Place{Seat: seat, ID: "new", Sandbox: "box-" + seat.Agent}
	if err := noted(p); err != nil {
		return p, err
	}
	f.remade = append(f.remade, seat)
	delete(f.gone, seat)
	return p, nil
}

func (f *fake) Begin(_ context.Context, seat Seat) (int64, error) {
	if f.gone[seat] {
		return 0, errGone
	}
	f.begun = append(f.begun, seat)
	return 0, nil
}

func (f *fake) Ahead(ctx context.Context, _ Seat) { f.ahead, f.getting = append(f.ahead, f.n), ctx }

func (f *fake) Keep(_ context.Context, seat Seat, _ string) (int64, error) {
	if f.gone[seat] {
		return 0, errGone
	}
	f.kept = append(f.kept, seat)
	f.since = append(f.since, 0)
	return int64(len(f.since)), nil
}

func (f *fake) Changes(_ Seat, since, at int64) (int, error) {
	if f.forgotten[since] {
		return 0, ErrForgotten
	}
	if f.forgotten != nil && since == 0 {
		return 99, nil
	}
	if f.counted == at { // of the whole
		if f.whole == nil {
			return 1, nil
		}
		return f.whole(f.n), nil
	}
	f.counted, f.since[at-1] = at, since
	changes := f.people
	if f.n != f.at {
		changes += f.changes(f.n)
	}
	f.at, f.people = f.n, 0
	return changes, nil
}

func (f *fake) Review(_ context.Context, job ReviewJob) (Opinion, error) {
	f.reviews = append(f.reviews, job)
	return f.opinion(len(f.reviews))
}

func (f *fake) Restore(_ context.Context, checkpoint int64) error {
	f.restored = append(f.restored, checkpoint)
	return f.refuses
}

func (f *fake) Beneath(int64) ([]string, error) { return f.beneath, nil }

func (f *fake) Judge(context.Context, int64, map[string]string) ([]Gate, map[string]string, error) {
	g := Gate{Name: "true", Green: f.green(f.n), Seconds: f.took}
	if !g.Green {
		g.Why, g.Output = "exit code 1", "the same"
	}
	gates := []Gate{g}
	if f.spoilt {
		gates = append(gates, Gate{Name: "protected test", Protects: "test", Why: "it is not what it was"})
	}
	return gates, map[string]string{"test": "sum"}, nil
}

func (f *fake) PutBack(_ context.Context, _ Seat, baseline map[string]string) (g Guard, err error) {
	if baseline["test"] != "sum" {
		return g, errors.New("nobody knows what it was")
	}
	if f.spoilt {
		g.Paths = []string{"test/one"}
	}
	f.spoilt, f.putBack = false, append(f.putBack, f.n)
	return g, nil
}

func says(text string) (Work, error) {
	return Work{Verdict: spec.VerdictOK, Message: text, Tokens: 10, USD: 1}, nil
}

const done = "all is well\n<promise>COMPLETE</promise>\n"

// carry carries a loop on in a run of its own.
func carry(t *testing.T, p *loopplan.Plan, f *fake) (*State, *run.Run) {
	t.Helper()
	r, err := run.Create(filepath.Join(t.TempDir(), "runs"), "x", p)
	must(t, err)
	return goOn(t.Context(), t, p, f, r), r
}

func goOn(ctx context.Context, t *testing.T, p *loopplan.Plan, f *fake, r *run.Run) *State {
	t.Helper()
	h, events, err := r.Host()
	must(t, err)
	defer h.Close()
	s, err := (&Loop{Plan: p, Run: r, Host: h, Runner: f}).Carry(ctx, events)
	must(t, err)
	return s
}

func TestCarry(t *testing.T) {
	always := func(n int) func(int) int { return func(int) int { return n } }
	from := func(n int) func(int) bool { return func(i int) bool { return i >= n } }
	lies := func(int) (Work, error) { return says(done) }
	tests := []struct {
		name       string
		set        func(*loopplan.Plan)
		f          fake
		status     run.Status
		reason     string
		iterations int
	}{
		{"three until green", nil, fake{work: lies, changes: always(1), green: from(3)}, run.Completed, "done", 3},
		{"green, and nobody says so", nil, fake{work: func(int) (Work, error) { return says("<promise>COMPLETE</promise> soon") }, changes: always(1), green: from(0)}, run.Limited, "iterations", 10},
		{"before the least", func(p *loopplan.Plan) { p.Limits.MinIterations = 4 }, fake{work: lies, changes: always(1), green: from(0)}, run.Completed, "done", 4},
		{"liar", nil, fake{work: lies, changes: always(0), green: from(99)}, run.Stalled, "unchanged", 3},
		{"busy liar", nil, fake{work: lies, changes: always(1), green: from(99)}, run.Stalled, "same_red", 5},
		{"patience", func(p *loopplan.Plan) { p.Stall = loopplan.Stall{} }, fake{work: lies, changes: always(0), green: from(99)}, run.Limited, "iterations", 10},
		{"gives up", nil, fake{work: func(int) (Work, error) { return says("<promise>NO</promise>") }, changes: always(1), green: from(0)}, run.Aborted, "abort_promise", 1},
		{"fails, but says done", nil, fake{work: func(int) (Work, error) { return Work{Verdict: spec.VerdictFailed, Message: done, Error: "x"}, nil }, changes: always(1), green: from(0)}, run.Stalled, "same_error", 5},
		{"tokens", func(p *loopplan.Plan) { p.Limits.Tokens = 15 }, fake{work: lies, changes: always(1), green: from(99)}, run.Limited, "tokens", 2},
		{"cost", func(p *loopplan.Plan) { p.Limits.USD = 3 }, fake{work: lies, changes: always(1), green: from(99)}, run.Limited, "cost", 3},
		{"done with the last token", func(p *loopplan.Plan) { p.Limits.Tokens = 10 }, fake{work: lies, changes: always(1), green: from(0)}, run.Completed, "done", 1},
		{"cannot begin", nil, fake{work: func(int) (Work, error) { return Work{}, errors.New("no sandbox") }}, run.Failed, "error", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := plan()
			if tt.set != nil {
				tt.set(p)
			}
			f := &tt.f
			if f.changes == nil {
				f.changes, f.green = always(0), from(0)
			}
			s, r := carry(t, p, f)
			if s.Status != tt.status || s.Reason != tt.reason || s.Iteration != tt.iterations {
				t.Errorf("%s (%s) after %d iterations, want %s (%s) after %d", s.Status, s.Reason, s.Iteration, tt.status, tt.reason, tt.iterations)
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

// TestAhead checks that the next iteration is prepared while the gates judge, if it comes whatever their
// verdict is.
func TestAhead(t *testing.T) {
	once := func(int) int { return 1 }
	for _, tt := range []struct {
		name    string
		set     func(*loopplan.Plan)
		claims  int // the iteration that says that it is done
		changes func(int) int
		took    float64
		want    []int
	}{
		{"not after a claim, nor at the end", func(p *loopplan.Plan) { p.Limits.MaxIterations = 4 }, 2, once, 59, []int{1, 3}},
		{"nothing moves any more", nil, 0, func(int) int { return 0 }, 0, []int{1, 2}},
		{"no tokens are left", func(p *loopplan.Plan) { p.Limits.Tokens = 25 }, 0, once, 0, []int{1, 2}},
		{"another's turn", func(p *loopplan.Plan) {
			p.Rotate([]loopplan.Turn{{Agent: "mine", Model: "m"}, {Agent: "yours", Model: "m"}})
			p.Limits.MaxIterations = 3
		}, 0, once, 0, nil},
		{"its gates take too long", nil, 0, once, 60, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := plan()
			if tt.set != nil {
				tt.set(p)
			}
			f := &fake{changes: tt.changes, took: tt.took, green: func(int) bool { return false }, work: func(n int) (Work, error) {
				if n == tt.claims {
					return says(done)
				}
				return says("not yet")
			}}
			if carry(t, p, f); !slices.Equal(f.ahead, tt.want) {
				t.Errorf("behind iterations %v, want %v", f.ahead, tt.want)
			}
		})
	}
}

// TestResume stops a loop after each of its events, and resumes it.
func TestResume(t *testing.T) {
	whole := func() *fake {
		return &fake{work: func(int) (Work, error) { return says(done) }, changes: func(int) int { return 1 }, green: func(n int) bool { return n >= 3 }}
	}
	_, r := carry(t, plan(), whole())
	events, err := r.Events()
	must(t, err)
	for n := range len(events) - 1 {
		again, err := run.Create(filepath.Join(t.TempDir(), "runs"), "x", plan())
		must(t, err)
		h, _, err := again.Host()
		must(t, err)
		f := whole()
		for _, ev := range events[:n] {
			var data any
			if ev.Data != nil {
				data = ev.Data
			}
			_, err := h.Append(ev.Type, ev.Actor, data)
			must(t, err)
			if ev.Type == Worked {
				f.n++
			}
			if ev.Type == Baseline || ev.Type == Kept {
				f.since, f.at = append(f.since, 0), f.n
			}
		}
		h.Close()
		s := goOn(t.Context(), t, plan(), f, again)
		if s.Status != run.Completed || s.Iteration != 3 || f.n != 3 || len(f.since) > 5 || len(f.since) < 4 {
			t.Errorf("cut off behind %d events: %s after %d iterations, %d of work, %d checkpoints", n, s.Status, s.Iteration, f.n, len(f.since))
		}
	}
}

// TestLimit checks that a loop waits for an allowance, and counts no iteration meanwhile.
func TestLimit(t *testing.T) {
	f := &fake{changes: func(int) int { return 1 }, green: func(int) bool { return true }}
	f.work = func(n int) (Work, error) {
		if n == 1 {
			return Work{Verdict: spec.VerdictLimit, Error: "used up", Until: time.Now().Add(50 * time.Millisecond)}, nil
		}
		return says(done)
	}
	s, _ := carry(t, plan(), f)
	if s.Status != run.Completed || s.Iteration != 1 || s.Repeats != 1 || s.SameError != 0 || !s.Until.IsZero() {
		t.Errorf("it is %+v", s)
	}
	p, at := plan(), time.Now()
	unknown := &State{Result: run.Result{Status: run.Running}, Baseline: &Verdict{}, Iteration: 1, Usage: run.Usage{Last: at}}
	unknown.addWork(Work{Verdict: spec.VerdictLimit}, at)
	if step := Next(p, unknown, at); !step.Wait.Equal(at.Add(run.UnknownWait)) {
		t.Errorf("until nobody knows when: %+v", step)
	}
	if step := Next(p, unknown, at.Add(run.UnknownWait)); step.Iterate != 1 {
		t.Errorf("after that: %+v", step)
	}
	p.Limits.Time = spec.Duration(time.Minute)
	if step := Next(p, unknown, at.Add(2*time.Minute)); step.End == nil || step.End.Reason != "time" {
		t.Errorf("beyond its time: %+v", step)
	}
}

// TestForgedLimits checks an agent that claims again and again that its allowance is used up.
func TestForgedLimits(t *testing.T) {
	p := plan()
	p.Stall.SameLimit = 3
	f := &fake{changes: func(int) int { return 1 }, green: func(int) bool { return true }}
	f.work = func(int) (Work, error) {
		return Work{Verdict: spec.VerdictLimit, Error: "used up", Until: time.Now().Add(-time.Hour), Tokens: 1}, nil
	}
	synctest.Test(t, func(t *testing.T) {
		s, r := carry(t, p, f)
		if s.Status != run.Stalled || s.Reason != "same_limit" || f.n != 3 || s.Iteration != 1 || s.Tokens != 3 || s.ExitCode() != spec.ExitStalled {
			t.Fatalf("after %d tries it is %+v", f.n, s)
		}
		f.work = func(n int) (Work, error) {
			if n%2 == 0 {
				return Work{Verdict: spec.VerdictLimit, Until: time.Now()}, nil
			}
			return says("no")
		}
		p.Limits.MaxIterations = 5
		if s = goOn(t.Context(), t, p, f, r); s.Reason != "iterations" || s.Repeats < 4 {
			t.Errorf("with other things in between it is %+v", s)
		}
	})
}

// TestOverloaded checks an overloaded provider: tries become ever less frequent, and use up no
// iteration. When the provider answers, the loop continues without a stall. But the number of tries is
// limited.
func TestOverloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plan()
		var at []time.Time
		f := &fake{changes: func(int) int { return 1 }, green: func(int) bool { return true }}
		f.work = func(n int) (Work, error) {
			if at = append(at, time.Now()); n <= 10 {
				return Work{Verdict: spec.VerdictLimit, Overloaded: true, Error: "529"}, nil
			}
			return says(done)
		}
		s, _ := carry(t, p, f)
		if s.Status != run.Completed || s.Iteration != 1 || s.Repeats != 10 || s.Unchanged != 0 || s.SameError != 0 || !s.Until.IsZero() {
			t.Errorf("it is %+v", s)
		}
		for n := 1; n < len(at); n++ {
			if want, got := min(time.Second<<n, run.UnknownWait), at[n].Sub(at[n-1]); got != want {
				t.Errorf("try %d is made after %s, not %s", n+1, got, want)
			}
		}
		p.Stall.SameLimit, f.n = 4, 0
		if s, _ := carry(t, p, f); s.Reason != "same_limit" || f.n != 4 || !strings.Contains(s.Detail, "overloaded") {
			t.Errorf("after %d tries it is %+v", f.n, s)
		}
	})
}

// TestWaits checks the delay of one worker, or of all workers that have a task.
func TestWaits(t *testing.T) {
	at, s := time.Now(), &State{Result: run.Result{Status: run.Running}}
	if d, ok := s.Waits(); ok {
		t.Errorf("nothing yet, and it waits: %+v", d)
	}
	s.addLimit(run.Overloaded, time.Time{}, at)
	s.addLimit(run.RateLimited, at.Add(time.Hour), at.Add(time.Second))
	if d, ok := s.Waits(); !ok || d != (run.Delay{For: run.RateLimited, Since: at, Until: at.Add(time.Hour)}) {
		t.Errorf("it waits: %+v, %v", d, ok)
	}
	one, two := &State{Task: &Taken{}}, &State{Task: &Taken{}}
	s = &State{Result: run.Result{Status: run.Running}, Workers: []*State{one, {}, two}}
	one.addLimit(run.RateLimited, at.Add(time.Hour), at)
	if d, ok := s.Waits(); ok {
		t.Errorf("another is at work, and it waits: %+v", d)
	}
	two.addLimit(run.Overloaded, at.Add(time.Minute), at.Add(time.Second))
	if d, ok := s.Waits(); !ok || d != (run.Delay{For: run.Overloaded, Since: at.Add(time.Second), Until: at.Add(time.Minute)}) {
		t.Errorf("it waits: %+v, %v", d, ok)
	}
	if s.Status = run.Waiting; waits(s) {
		t.Error("nobody carries it on, and it waits")
	}
}

func waits(s *State) bool {
	_, ok := s.Waits()
	return ok
}

// TestLongWait checks that the loop does not believe in longer waits than any allowance has, nor in
// clocks.
func TestLongWait(t *testing.T) {
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	event := func(kind string, data any) run.Event {
		text, err := json.Marshal(data)
		must(t, err)
		return run.Event{Type: kind, Time: at, Data: text}
	}
	s, err := Fold([]run.Event{
		event(run.Began, nil), event(Baseline, Verdict{}), event(Iteration, Begun{Iteration: 1}),
		event(Worked, Work{Iteration: 1, Verdict: spec.VerdictLimit, Until: at.AddDate(1000, 0, 0)}),
	})
	must(t, err)
	if step := Next(plan(), s, at); !step.Wait.Equal(at.Add(run.LongestWait)) || !s.Until.Equal(step.Wait) {
		t.Errorf("it waits until %s, and says %s", step.Wait, s.Until)
	}
	if step := Next(plan(), s, at.AddDate(-1, 0, 0)); step.Iterate != 1 {
		t.Errorf("when the clock was set back by a year: %+v", step)
	}
	if step := Next(plan(), s, at.Add(-time.Second)); step.Wait.IsZero() {
		t.Errorf("when it was put right by a second: %+v", step)
	}
	if used := s.Took(s.Status, at.AddDate(-1, 0, 0)); used != 0 {
		t.Errorf("it has taken %s", used)
	}
	must(t, s.Add(run.Event{Type: Iteration, Time: at.AddDate(-1, 0, 0), Data: []byte(`{"iteration":1}`)}))
	if s.Elapsed != 0 || s.Took(s.Status, at.AddDate(-1, 0, 0).Add(time.Minute)) != time.Minute {
		t.Errorf("it has taken %s", time.Duration(s.Elapsed))
	}
}

// TestPauseBefore checks that a pause that was left for an earlier process is ignored.
func TestPauseBefore(t *testing.T) {
	p := plan()
	r, err := run.Create(filepath.Join(t.TempDir(), "runs"), "x", p)
	must(t, err)
	must(t, r.Leave(run.Message{Kind: run.Pause, Actor: "ann"}))
	must(t, r.Leave(run.Message{Kind: run.Hint, Text: "listen", Actor: "ann"}))
	f := &fake{work: func(int) (Work, error) { return says(done) }, changes: func(int) int { return 1 }, green: func(int) bool { return true }}
	if s := goOn(t.Context(), t, p, f, r); s.Status != run.Completed || !strings.Contains(f.prompts[0], "listen") {
		t.Errorf("it is %+v, and was told %q", s, f.prompts)
	}
	if list, err := r.Mail(); err != nil || len(list) != 0 {
		t.Errorf("%d messages are left, %v", len(list), err)
	}
}

// TestCut checks that the usage of an interrupted try counts.
func TestCut(t *testing.T) {
	p := plan()
	r, err := run.Create(filepath.Join(t.TempDir(), "runs"), "x", p)
	must(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	f := &fake{changes: func(int) int { return 1 }, green: func(int) bool { return true }}
	f.work = func(int) (Work, error) {
		cancel(&spec.Exited{Code: 130})
		return Work{Tokens: 7, USD: 0.5, Message: done}, context.Canceled
	}
	s := goOn(ctx, t, p, f, r)
	if s.Status != run.Interrupted || s.Tokens != 7 || s.USD != 0.5 || s.Work != nil || s.Iteration != 1 {
		t.Fatalf("it is %+v", s)
	}
	f.work = func(int) (Work, error) { return says(done) }
	if s = goOn(t.Context(), t, p, f, r); s.Status != run.Completed || s.Tokens != 17 || s.Repeats != 1 || s.Iteration != 1 {
		t.Errorf("it is %+v", s)
	}
}

// TestForgedCounts checks an agent that reports negative tokens.
func TestForgedCounts(t *testing.T) {
	p := plan()
	p.Limits.Tokens, p.Limits.USD = 1000, 1
	tokens, usd := int64(600), 0.01
	f := &fake{changes: func(int) int { return 1 }, green: func(int) bool { return false }}
	f.work = func(n int) (Work, error) {
		if n == 2 {
			return Work{Verdict: spec.VerdictOK, Message: "no", Tokens: -500, USD: -5}, nil
		}
		return Work{Verdict: spec.VerdictOK, Message: "no", Tokens: tokens, USD: usd}, nil
	}
	if s, _ := carry(t, p, f); s.Reason != "tokens" || s.Iteration != 3 || s.Tokens != 1200 {
		t.Errorf("it is %+v", s)
	}
	f.n, tokens, p.Limits.Tokens = 0, math.MaxInt64, math.MaxInt64
	if s, _ := carry(t, p, f); s.Reason != "tokens" || s.Tokens != math.MaxInt64 {
		t.Errorf("it is %+v", s)
	}
}

// TestPeople checks stops, pauses and hints while the agent works.
func TestPeople(t *testing.T) {
	p := plan()
	r, err := run.Create(filepath.Join(t.TempDir(), "runs"), "x", p)
	must(t, err)
	f := &fake{changes: func(int) int { return 1 }, green: func(int) bool { return false }}
	f.work = func(n int) (Work, error) {
		must(t, r.Leave(run.Message{Kind: run.Hint, Text: "look at {{prompt}}", Actor: "ann"}))
		must(t, r.Leave(run.Message{Kind: run.Pause, Actor: "ann"}))
		return says("no")
	}
	s := goOn(t.Context(), t, p, f, r)
	if s.Status != run.Waiting || s.Reason != "paused" || s.Iteration != 1 || s.Verdict == nil || len(s.Hints) != 1 || s.ExitCode() != spec.ExitWaiting {
		t.Fatalf("it is %+v", s)
	}
	f.work = func(n int) (Work, error) {
		must(t, r.Leave(run.Message{Kind: run.Stop, Actor: "ann"}))
		return says(done)
	}
	s = goOn(t.Context(), t, p, f, r)
	if s.Status != run.Cancelled || s.Iteration != 2 || !s.Final() {
		t.Errorf("it is %+v", s)
	}
	if strings.Contains(f.prompts[0], "look at") || !strings.Contains(f.prompts[1], "look at {{prompt}}") {
		t.Errorf("it was told %q", f.prompts)
	}
}

// TestPauseEndsWait checks that models are asked at once when a person pauses a loop that waits for
// them, and resumes it. A carrier after a crash keeps waiting.
func TestPauseEndsWait(t *testing.T) {
	for name, paused := range map[string]bool{"paused": true, "crashed": false} {
		t.Run(name, func(t *testing.T) {
			s, seq := &State{}, int64(0)
			at := time.Now()
			event := func(kind string, data any) {
				t.Helper()
				text, err := json.Marshal(data)
				must(t, err)
				seq++
				must(t, s.Add(run.Event{Seq: seq, Time: at, Type: kind, Data: text}))
			}
			event(run.Began, nil)
			event(Baseline, Verdict{})
			event(Iteration, Begun{Iteration: 1})
			event(Worked, Work{Iteration: 1, Verdict: spec.VerdictLimit, Until: at.Add(5 * 24 * time.Hour)})
			if step := Next(plan(), s, at); step.Wait.IsZero() {
				t.Fatalf("it does %+v", step)
			}
			if paused {
				event(run.Ended, End{Status: run.Waiting, Reason: "paused"})
			}
			event(run.Began, nil)
			if step := Next(plan(), s, at); step.Wait.IsZero() != paused || paused && step.Iterate != 1 {
				t.Errorf("gone on with it does %+v", step)
			}
		})
	}
}

func TestSignal(t *testing.T) {
	p := plan()
	r, err := run.Create(filepath.Join(t.TempDir(), "runs"), "x", p)
	must(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	f := &fake{changes: func(int) int { return 1 }, green: func(int) bool { return true }}
	f.work = func(int) (Work, error) {
		cancel(&spec.Exited{Code: 143})
		return says(done)
	}
	if s := goOn(ctx, t, p, f, r); s.Status != run.Interrupted || s.ExitCode() != 143 || s.Work != nil {
		t.Errorf("it is %+v", s)
	}
}

func TestPromised(t *testing.T) {
	for message, want := range map[string]bool{
		"<promise>COMPLETE</promise>":                            true,
		"x\n  <promise>COMPLETE</promise> \n\n":                  true,
		"<promise>COMPLETE</promise>\nx":                         false,
		"I will say <promise>COMPLETE</promise>":                 false,
		"<promise>complete</promise>":                            true,
		"<Promise>Complete</promise>":                            true,
		"```\n<promise>COMPLETE</promise>\n```":                  true,
		"```text\n<promise>COMPLETE</promise>\n\n```\n\n...\n":   true,
		"```\n<promise>COMPLETE</promise>\n```\nnot yet":         false,
		"<promise>COMPLETE</promise>\n---":                       false,
		"```\n```":                                               false,
		"x\n**<promise>COMPLETE</promise>**":                     true,
		"`<promise>COMPLETE</promise>`. ":                        true,
		"> <promise>COMPLETE</promise>":                          false,
		"\"<promise>COMPLETE</promise>\"":                        false,
		"<promise>COMPLETE</promise>?":                           false,
		"not **<promise>COMPLETE</promise>**":                    false,
		"**<promise>COMPLETE</promise>** 1":                      false,
		"<promise>COMPLETE</promise> é":                          false,
		"<promise>**COMPLETE**</promise>":                        false,
		"<promise>COMPLETE</promise><promise>COMPLETE</promise>": false,
		"": false,
	} {
		if got := promised(message, "COMPLETE"); got != want {
			t.Errorf("%q: %v", message, got)
		}
	}
	if promised("<promise></promise>", "") {
		t.Error("nothing was promised")
	}
	p := plan()
	if text, _ := Prompt(p, &State{}, 1); promised(text, p.Promise) {
		t.Error("the prompt itself is a promise")
	}
}

func TestCheck(t *testing.T) {
	must(t, plan().Check())
	for name, spoil := range map[string]func(*loopplan.Plan){
		"prompt":    func(p *loopplan.Plan) { p.Prompt = " " },
		"until":     func(p *loopplan.Plan) { p.Until = nil },
		"empty":     func(p *loopplan.Plan) { p.Until = []string{""} },
		"most":      func(p *loopplan.Plan) { p.Limits.MaxIterations = 0 },
		"least":     func(p *loopplan.Plan) { p.Limits.MinIterations = 11 },
		"gate":      func(p *loopplan.Plan) { p.Limits.Gate = 0 },
		"promise":   func(p *loopplan.Plan) { p.Promise = "" },
		"same":      func(p *loopplan.Plan) { p.Abort = p.Promise },
		"same word": func(p *loopplan.Plan) { p.Abort = "Complete" },
		"no number": func(p *loopplan.Plan) { p.Limits.USD = math.NaN() },
		"no end":    func(p *loopplan.Plan) { p.Limits.USD = math.Inf(1) },
		"zeroes":    func(p *loopplan.Plan) { p.Promise = "a\x00b" },
		"line":      func(p *loopplan.Plan) { p.Promise = "a\nb" },
		"protect":   func(p *loopplan.Plan) { p.Protect = []string{"../x"} },
		"template":  func(p *loopplan.Plan) { p.Template = "work" },
		"zero":      func(p *loopplan.Plan) { p.Prompt = "a\x00b" },
		"limits":    func(p *loopplan.Plan) { p.Stall.SameLimit = -1 },
		"idle":      func(p *loopplan.Plan) { p.Limits.Idle = -1 },
		"model":     func(p *loopplan.Plan) { p.Models = []string{"--yolo"} },
		"variable":  func(p *loopplan.Plan) { p.Template = "{{prompt}} {{x" },
		"stall":     func(p *loopplan.Plan) { p.Stall.SameRed = -1 },
		"allowance": func(p *loopplan.Plan) { p.Limits.Tokens = -1 },
	} {
		p := plan()
		if spoil(p); !errors.Is(p.Check(), spec.ErrUsage) {
			t.Errorf("%s: %v", name, p.Check())
		}
	}
}

// stepsOf checks that each worker's activity and next step are defined.
func stepsOf(t *testing.T, s *State, now time.Time) {
	t.Helper()
	p := plan()
	p.Tasks, p.Workers = &loopplan.Tasks{Tries: 3}, loopplan.MaxWorkers
	for n, w := range s.Workers {
		if step := NextOf(p, s, w, now); reflect.DeepEqual(step, Step{}) || w.At() == "" || w.held && w.Task == nil {
			t.Fatalf("worker %d: %+v, %s", n+1, step, w.At())
		}
	}
}

// randomEvent returns an event that may follow any other.
func randomEvent(t *testing.T, r *rand.Rand) run.Event {
	t.Helper()
	n := r.IntN(5)
	gates := []Gate{{Name: "a", Green: r.IntN(2) == 0, Why: "x"}}
	all := []struct {
		kind string
		data any
	}{
		{run.Began, nil},
		{run.Ready, Made{Sandbox: "x"}},
		{Baseline, Verdict{Gates: gates}},
		{Iteration, Begun{Iteration: n, Hints: n, Model: "m"}},
		{Cut, Work{Iteration: n, Tokens: int64(n)}},
		{Worked, Work{Iteration: n, Verdict: []string{spec.VerdictOK, spec.VerdictFailed, spec.VerdictLimit}[r.IntN(3)], Error: "e", Tokens: int64(n), Asks: n == 0, Message: "e?"}},
		{Kept, Keep{Iteration: n, Checkpoint: int64(n), Changes: n, Again: n == 0}},
		{Confirmed, Keep{Iteration: n, Checkpoint: int64(n), Again: true}},
		{Judged, Verdict{Iteration: n, Gates: gates}},
		{Hinted, Advice{string(rune('a' + n)), "h"}},
		{Cleared, nil},
		{run.Ended, End{Status: []run.Status{run.Completed, run.Stalled, run.Interrupted}[r.IntN(3)]}},
		{Took, Taken{ID: "bd-1"}},
		{Closed, Finished{Task: "bd-1", Iteration: n}},
		{PutBack, Left{Task: "bd-1", Why: "x", Iteration: n, Checkpoint: int64(n), Objected: n == 0}},
		{Reviewing, Asking{Iteration: n, Gate: "judge"}},
		{Reviewed, Review{Iteration: n, Checkpoint: int64(n), Gate: Gate{Name: "judge", Green: n == 0, Review: true}, Usage: Usage{Tokens: int64(n)}}},
		{ReviewDelayed, Unheard{Iteration: n, Gate: "judge"}},
		{ReviewCut, Unheard{Usage: Usage{Tokens: int64(n)}}},
		{Rewound, Back{Iteration: n, Checkpoint: int64(n)}},
		{Restored, Put{Gone: n == 0}},
		{"of the future", nil},
	}
	one := all[r.IntN(len(all))]
	kind, data := one.kind, one.data
	if r.IntN(2) == 0 {
		kind, data = anyWorkerEvent(r)
	}
	text, err := json.Marshal(data)
	must(t, err)
	return run.Event{Type: kind, Data: text}
}

// TestFold folds random events in random order. Nothing panics, every prefix folds, and folding all
// events at once gives the same state as one after the other. Sums do not shrink, and each of several
// workers has a next step.
func TestFold(t *testing.T) {
	racetest.Skip(t)
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
		step, err := Fold(nil)
		must(t, err)
		var events []run.Event
		for range r.IntN(30) {
			ev := randomEvent(t, r)
			at = at.Add(time.Second)
			ev.Seq, ev.Time = int64(len(events))+1, at
			events = append(events, ev)
			before := *step
			must(t, step.Add(ev))
			whole, err := Fold(events)
			must(t, err)
			if !reflect.DeepEqual(whole, step) {
				t.Fatalf("seed %d, %d events:\n%+v\n%+v", seed, len(events), whole, step)
			}
			if step.Tokens < before.Tokens || step.Elapsed < before.Elapsed || step.Repeats < before.Repeats {
				t.Fatalf("seed %d: something has become less: %+v, %+v", seed, before, step)
			}
			if step.Baseline != nil {
				stepsOf(t, step, at)
			}
		}
	}
}
