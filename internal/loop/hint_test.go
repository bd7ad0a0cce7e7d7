package loop

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// TestClear checks that a hint is withdrawn unless it was delivered to an iteration that counts, or is
// being delivered.
func TestClear(t *testing.T) {
	limit := Work{Iteration: 1, Verdict: spec.VerdictLimit}
	told := []any{run.Began, nil, Baseline, Verdict{}, Hinted, Advice{"1", "a"}, Iteration, Begun{Iteration: 1, Hints: 1}, Hinted, Advice{"2", "b"}}
	for name, c := range map[string]struct {
		then []any
		want []string
	}{
		"it is told":           {nil, []string{"a"}},
		"it was told":          {[]any{Worked, Work{Iteration: 1, Verdict: spec.VerdictOK}}, []string{}},
		"of no account":        {[]any{Worked, limit}, []string{}},
		"cut short":            {[]any{Cut, Work{Iteration: 1, Tokens: 1}}, []string{}},
		"interrupted":          {[]any{run.Ended, End{Status: run.Interrupted}}, []string{}},
		"a crash":              {[]any{run.Began, nil}, []string{}},
		"it is told once more": {[]any{run.Began, nil, Iteration, Begun{Iteration: 1, Hints: 1}}, []string{"a"}},
	} {
		s := fold(t, append(append(slices.Clone(told), c.then...), Cleared, nil)...)
		if !slices.Equal(s.Hints, c.want) {
			t.Errorf("%s: what is left is %q, want %q", name, s.Hints, c.want)
		}
	}
}

// TestClearWorkers checks the same for several workers: a worker that received a hint keeps it, and the
// hints of a try without a result go to the next worker.
func TestClearWorkers(t *testing.T) {
	by := By{Worker: 1}
	told := []any{
		run.Began, nil, Baseline,
		Verdict{},
		Took,
		Taken{By: by, ID: "a"},
		Hinted,
		Advice{"1", "a"},
		Hinted,
		Advice{"2", "b"},
		Iteration,
		Begun{By: by, Iteration: 1, Hints: 1},
	}
	s := fold(t, append(slices.Clone(told), Cleared, nil)...)
	if len(s.Hints) != 0 || !slices.Equal(s.Workers[0].given, []string{"a"}) {
		t.Errorf("while it works it is left %q and %q", s.Hints, s.Workers[0].given)
	}
	for name, then := range map[string][]any{
		"limit": {Worked, Work{By: by, Iteration: 1, Verdict: spec.VerdictLimit}},
		"cut":   {Cut, Work{By: by, Iteration: 1, Tokens: 1}},
		"end":   {run.Ended, End{Status: run.Interrupted}},
		"crash": {run.Began, nil},
	} {
		s := fold(t, append(slices.Clone(told), then...)...)
		if !slices.Equal(s.Hints, []string{"a", "b"}) {
			t.Errorf("%s: for whoever is next there is %q", name, s.Hints)
		}
		s = fold(t, append(append(slices.Clone(told), then...), Cleared, nil)...)
		if len(s.Hints) != 0 || len(s.Workers[0].given) != 0 {
			t.Errorf("%s: what is left is %q and %q", name, s.Hints, s.Workers[0].given)
		}
	}
}

// TestExpect checks that the status shows untaken hints, once each.
func TestExpect(t *testing.T) {
	s := fold(t, run.Began, nil, Hinted, Advice{"1", "a"})
	if s.Expect([]run.Message{{ID: "1", Kind: run.Hint, Text: "a"}, {ID: "2", Kind: run.Hint, Text: "b"}}) || !slices.Equal(s.Hints, []string{"a", "b"}) {
		t.Errorf("there is %q", s.Hints)
	}
	if !s.Expect([]run.Message{{ID: "3", Kind: run.Clear}, {ID: "4", Kind: run.Hint, Text: "c"}, {ID: "5", Kind: run.Pause}}) || !slices.Equal(s.Hints, []string{"c"}) {
		t.Errorf("there is %q, and no pause", s.Hints)
	}
}

// TestStalledByFailure checks that a loop that stalls because its agent fails says so, in one line
// that is safe for a terminal.
func TestStalledByFailure(t *testing.T) {
	p := plan()
	p.Stall = loopplan.UsualStall
	for _, c := range []struct{ err, want string }{
		{"", "no file was changed in 3 iterations"},
		{"Not logged in\x1b[2J\nmore", "no file was changed in 3 iterations; the agent failed: Not logged in[2J"},
		{strings.Repeat("e", 500), " [...]"},
	} {
		s := &State{Iteration: 3, Unchanged: 3, Work: &Work{Verdict: spec.VerdictFailed, Error: c.err}, Verdict: &Verdict{}}
		if end := verdict(p, s); end == nil || !strings.HasSuffix(end.Detail, c.want) || len(end.Detail) > 300 {
			t.Errorf("%q: %+v", c.err, end)
		}
	}
}

// TestHintedLast checks that an undelivered hint is more work, even if the agent says that it is done
// and all checks agree. This is also true for the last try at a task, and before a reviewer is asked.
// The hint gets an iteration of its own, if the limit allows one.
func TestHintedLast(t *testing.T) {
	tasks, last := plan(), plan()
	tasks.Tasks, last.Limits.MaxIterations = &loopplan.Tasks{Tries: 1}, 1
	green := []Gate{{Name: "a", Green: true}}
	happened := func(w By, then ...any) *State {
		all := []any{
			run.Began, nil, Baseline,
			Verdict{Gates: []Gate{{Name: "a", Why: "exit code 1"}}},
			Took,
			Taken{By: w, ID: "bd-1", Base: int64(w.Worker)},
			Iteration,
			Begun{By: w, Iteration: 1},
			Worked,
			Work{By: w, Iteration: 1, Verdict: spec.VerdictOK, Done: true},
			Hinted,
			Advice{"1", "make it blue"},
			Kept,
			Keep{By: w, Iteration: 1, Checkpoint: 2, Changes: 1},
			Judged,
			Verdict{By: w, Iteration: 1, Checkpoint: 2, Gates: green},
		}
		return fold(t, append(all, then...)...)
	}
	if step := Next(tasks, happened(By{}), time.Time{}); step.Iterate != 2 {
		t.Errorf("with tasks: %+v", step)
	}
	for name, p := range map[string]*loopplan.Plan{"alone": plan(), "with a reviewer": reviewed()} {
		s := happened(By{})
		s.Task = nil
		if step := Next(p, s, s.Last); step.Iterate != 2 {
			t.Errorf("%s: %+v", name, step)
		}
	}
	s := happened(By{})
	s.Task = nil
	if step := Next(last, s, s.Last); step.End == nil || step.End.Status != run.Limited {
		t.Errorf("without another iteration: %+v", step)
	}
	s = happened(By{}, Cleared, nil)
	s.Task = nil
	if step := Next(plan(), s, s.Last); step.End == nil || step.End.Status != run.Completed {
		t.Errorf("taken back: %+v", step)
	}
	s = happened(By{Worker: 1})
	if step := NextOf(tasks, s, s.Workers[0], s.Last); step.Iterate != 2 {
		t.Errorf("one of several: %+v", step)
	}
	by := By{Worker: 1}
	joined := Join{By: by, Task: "bd-1", Checkpoint: 3, Ours: 2}
	for name, then := range map[string][]any{
		"brought together":       {Joined, joined},
		"judged with the others": {Joined, joined, Rejudged, Verdict{By: by, Checkpoint: 3, Gates: green}},
	} {
		s := happened(by, then...)
		if step := NextOf(tasks, s, s.Workers[0], s.Last); step.Iterate != 2 {
			t.Errorf("one of several, %s: %+v", name, step)
		}
		s = happened(by, append(then, Cleared, nil)...)
		if step := NextOf(tasks, s, s.Workers[0], s.Last); !step.Rejudge && !step.Settle {
			t.Errorf("one of several, %s, and taken back: %+v", name, step)
		}
	}
	if s := happened(by, Joined, joined, Settled, Settle{by, 3}); !NextOf(tasks, s, s.Workers[0], s.Last).Close {
		t.Error("what is in the loop's sandbox is not closed")
	}
	last.Tasks = tasks.Tasks
	if step := NextOf(last, s, s.Workers[0], s.Last); !step.Join {
		t.Errorf("one of several, without another iteration: %+v", step)
	}
	if step := NextOf(reviewed(), s, s.Workers[0], s.Last); step.Review != nil {
		t.Errorf("one of several, before a review: %+v", step)
	}
}

// TestHintWhilePaused checks that a hint to a paused loop that is done is delivered after the loop is
// resumed.
func TestHintWhilePaused(t *testing.T) {
	p, r, d := desk(t, "one")
	f := &fake{changes: always(1), work: func(int) (Work, error) { return says(done) }, green: always(true)}
	pausedAfter(t, p, f, r, d)
	must(t, r.Leave(run.Message{Kind: run.Hint, Text: "make it blue", Actor: "ann"}))
	s := workThrough(t.Context(), t, p, f, r, d)
	if s.Status != run.Completed || s.Iteration != 2 || len(s.Hints) != 0 || len(s.Closed) != 1 || !strings.Contains(f.prompts[1], "make it blue") {
		t.Errorf("it is %s (%s) after %d iterations, %q are left", s.Status, s.Reason, s.Iteration, s.Hints)
	}
}

// TestTeamHintLate checks that a hint that arrives while the merge is judged has its iteration
// before the task is closed.
func TestTeamHintLate(t *testing.T) {
	p, r, d := hire(t, 2, "a")
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.work = func(_ *bench, _ Seat, id string, f files) (Work, error) {
			f[id] += "done "
			b.main["other"] = "by hand"
			return says(done)
		}
		judged := 0
		b.judge = func(files) string {
			if judged++; judged == 3 { // with the changes made by hand
				must(t, r.Leave(run.Message{Kind: run.Hint, Text: "mind the gap", Actor: "ann"}))
			}
			return ""
		}
		s, err := teamwork(t.Context(), t, p, b, r, d, nil)
		must(t, err)
		if s.Status != run.Completed || s.Iteration != 2 || len(s.Hints) != 0 || len(s.Closed) != 1 || b.main["bd-a"] != "done done " || !strings.Contains(b.prompts[1], "mind the gap") {
			t.Errorf("it is %s (%s) after %d iterations, %q are left, %v", s.Status, s.Reason, s.Iteration, s.Hints, b.main)
		}
	})
}
