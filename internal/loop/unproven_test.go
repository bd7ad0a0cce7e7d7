package loop

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// TestUnproven checks that an agent that says that it is done and has changed nothing is not
// believed if all gates were green before.
func TestUnproven(t *testing.T) {
	tests := []struct {
		name       string
		set        func(*loopplan.Plan)
		green      func(n int) bool
		changes    func(n int) int
		status     run.Status
		reason     string
		iterations int
	}{
		{"nothing", nil, always(true), always(0), run.Stalled, "unchanged", 3},
		{"something", nil, always(true), always(1), run.Completed, "done", 1},
		{"something, at last", nil, always(true), func(n int) int { return n / 3 }, run.Completed, "done", 3},
		{"red before", nil, func(n int) bool { return n > 0 }, always(0), run.Completed, "done", 1},
		{"such work", func(p *loopplan.Plan) { p.AllowUnchanged = true }, always(true), always(0), run.Completed, "done", 1},
		{"a reviewer agrees", func(p *loopplan.Plan) { p.Gates = reviewed().Gates[:1] }, always(true), always(0), run.Completed, "done", 1},
		{"more iterations than stall", func(p *loopplan.Plan) { p.Limits.MinIterations = 5 }, always(true), always(0), run.Stalled, "unchanged", 3},
		{"no end to that", func(p *loopplan.Plan) { p.Stall.Unchanged = 0 }, always(true), always(0), run.Limited, "iterations", 10},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := plan()
			if tt.set != nil {
				tt.set(p)
			}
			f := &fake{work: func(int) (Work, error) { return says(done) }, changes: tt.changes, green: tt.green}
			f.opinion = func(int) (Opinion, error) { return opinion(agrees), nil }
			s, _ := carry(t, p, f)
			if s.Status != tt.status || s.Reason != tt.reason || s.Iteration != tt.iterations {
				t.Errorf("it is %s (%s) after %d iterations, want %s (%s) after %d", s.Status, s.Reason, s.Iteration, tt.status, tt.reason, tt.iterations)
			}
			if tt.iterations > 1 && !strings.Contains(f.prompts[1], "- that it is done: you have said so, and no file of the project was changed; "+unproven+"\n") {
				t.Errorf("it was told %q", f.prompts[1])
			}
			if tt.status == run.Stalled && s.Detail != "no file was changed in 3 iterations; "+unproven {
				t.Errorf("it says %q", s.Detail)
			}
		})
	}
}

// TestUnprovenWhole checks that a change that one iteration makes and another undoes is not proof.
func TestUnprovenWhole(t *testing.T) {
	f := &fake{changes: always(1), whole: func(n int) int { return n / 3 }, green: always(true)}
	f.work = func(n int) (Work, error) {
		if n == 1 {
			return says("I have looked around.")
		}
		return says(done)
	}
	if s, _ := carry(t, plan(), f); s.Status != run.Completed || s.Iteration != 3 {
		t.Errorf("it is %s (%s) after %d iterations", s.Status, s.Reason, s.Iteration)
	}
	if len(f.prompts) != 3 || !strings.Contains(f.prompts[2], "- that it is done: you have said so, and no file of the project was changed; ") {
		t.Errorf("it was told %q", f.prompts)
	}
}

// TestUnprovenForgotten checks that after a person removes the checkpoint before an iteration, its files
// are compared with the start. The files from before are not proof.
func TestUnprovenForgotten(t *testing.T) {
	for _, tt := range []struct {
		forgotten []int64
		reason    string
		since     []int64
	}{
		{nil, "unchanged", []int64{0, 1, 2, 3}},
		{[]int64{2, 3}, "unchanged", []int64{0, 1, 1, 1}},
		{[]int64{1, 2}, "done", []int64{0, 0}}, // the files from before are unknown
	} {
		f := &fake{work: func(int) (Work, error) { return says(done) }, changes: always(0), green: always(true), forgotten: map[int64]bool{}}
		for _, n := range tt.forgotten {
			f.forgotten[n] = true
		}
		if s, _ := carry(t, plan(), f); s.Reason != tt.reason || !slices.Equal(f.since, tt.since) {
			t.Errorf("without %v it is %s (%s), compared with %v", tt.forgotten, s.Status, s.Reason, f.since)
		}
	}
}

// TestConfirmForgotten checks that the next carrier has the files judged again if the last checkpoint is
// gone: they may not be the files that were judged.
func TestConfirmForgotten(t *testing.T) {
	f := &fake{changes: always(0), forgotten: map[int64]bool{}}
	s := &State{Baseline: &Verdict{Checkpoint: 1}, checked: 2}
	for _, tt := range []struct {
		forgotten []int64
		kind      string
		changes   int
	}{{nil, Confirmed, 0}, {[]int64{2}, Kept, 0}, {[]int64{1, 2}, Kept, 99}} {
		for _, n := range tt.forgotten {
			f.forgotten[n] = true
		}
		kind, k, err := (&Loop{Runner: f}).compareFiles(t.Context(), Seat{}, s, "goes on")
		must(t, err)
		if kind != tt.kind || k.Changes != tt.changes {
			t.Errorf("without %v: %s, %d changes", tt.forgotten, kind, k.Changes)
		}
	}
}

// TestUnprovenTasks checks the same for each task: the work on the one before is not proof.
func TestUnprovenTasks(t *testing.T) {
	p, r, d := desk(t, "one", "two", "three")
	p.Tasks.Tries = 5
	f := &fake{work: func(int) (Work, error) { return says(done) }, green: always(true)}
	f.changes = func(n int) int { return map[int]int{1: 1, 5: 1}[n] }
	s := workThrough(t.Context(), t, p, f, r, d)
	if s.Reason != reasonTasksFailed || len(s.Closed) != 2 || len(s.Left) != 1 || s.Left[0].Task != "bd-two" || s.Left[0].Why != "no file was changed in 3 iterations; "+unproven {
		t.Errorf("it is %s (%s), %v closed, %v put back", s.Status, s.Reason, s.Closed, s.Left)
	}
	if x := at(t, d, "bd-two"); !strings.Contains(x.Notes, unproven) {
		t.Errorf("the task has the note %q", x.Notes)
	}
	if strings.Contains(f.prompts[4], unproven) {
		t.Errorf("another task begins with %q", f.prompts[4])
	}
}

// TestUnprovenTeam checks the same for several workers: each needs its own proof.
func TestUnprovenTeam(t *testing.T) {
	p, r, d := hire(t, 2, "a", "b")
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.work = func(_ *bench, _ Seat, id string, f files) (Work, error) {
			if id == "bd-a" {
				f[id] = "done"
			}
			return says(done)
		}
		s, err := teamwork(t.Context(), t, p, b, r, d, nil)
		must(t, err)
		if s.Reason != reasonTasksFailed || len(s.Closed) != 1 || len(s.Left) != 1 || !strings.HasSuffix(s.Left[0].Why, unproven) || !maps.Equal(b.main, files{"bd-a": "done"}) {
			t.Errorf("it is %s (%s), %v closed, %v put back", s.Status, s.Reason, s.Closed, s.Left)
		}
	})
}

// TestUnprovenRewound checks that after a rewind the changes before that point count, and no later ones.
func TestUnprovenRewound(t *testing.T) {
	for back, want := range map[int]string{0: "unchanged", 1: "unchanged", 2: "done"} {
		p := plan()
		p.Limits.MaxIterations = 9
		f := &fake{work: func(int) (Work, error) { return says(done) }, green: always(true)}
		f.changes = func(n int) int { return map[int]int{2: 1, 3: 1}[n] }
		f.work = func(n int) (Work, error) {
			if n > 3 {
				return says(done)
			}
			return Work{Verdict: spec.VerdictOK, Message: "not yet"}, nil
		}
		r := next(t, &run.Run{ID: "x"})
		p.Limits.MaxIterations = 3
		goOn(t.Context(), t, p, f, r)
		_, err := rewind(t, p, f, r, nil, back)
		must(t, err)
		p.Limits.MaxIterations = 9
		if s := goOn(t.Context(), t, p, f, r); s.Reason != want {
			t.Errorf("from %d on it is %s (%s)", back, s.Status, s.Reason)
		}
	}
}

// TestUnprovenUnknown checks that an unknown earlier verdict does not count as green.
func TestUnprovenUnknown(t *testing.T) {
	green := &Verdict{Gates: []Gate{{Name: "true", Green: true}}}
	s := &State{Task: &Taken{}, claims: true, Verdict: green}
	if Unproven(plan(), s) {
		t.Error("it was never judged before")
	}
	if s.before = green; !Unproven(plan(), s) {
		t.Error("it was green before")
	}
}
