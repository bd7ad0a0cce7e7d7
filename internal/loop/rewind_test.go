package loop

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/loop/taskqueue"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/spec"
)

// rewind goes back to an iteration.
func rewind(t *testing.T, p *loopplan.Plan, f *fake, r *run.Run, d *taskqueue.Queue, n int) (*State, error) {
	t.Helper()
	h, events, err := r.Host()
	must(t, err)
	defer h.Close()
	b, err := Behind(events, n)
	must(t, err)
	return (&Loop{Plan: p, Run: r, Host: h, Runner: f, Queue: d}).Rewind(t.Context(), events, b, "ann")
}

func TestRewind(t *testing.T) {
	p := plan()
	p.Limits.MaxIterations = 4
	f := &fake{work: func(int) (Work, error) { return says(done) }, changes: always(1), green: always(false)}
	s, r := carry(t, p, f)
	if s.Reason != "iterations" {
		t.Fatalf("it is %+v", s)
	}
	s, err := rewind(t, p, f, r, nil, 2)
	must(t, err)
	if s.Status != run.Waiting || s.Reason != "rewound" || s.Iteration != 2 || s.SameRed != 0 || s.Verdict == nil || s.Verdict.Iteration != 2 || s.Tokens != 40 || !slices.Equal(f.restored, []int64{3}) {
		t.Fatalf("it is %+v, put back to %d", s, f.restored)
	}
	f.green = always(true)
	if s = goOn(t.Context(), t, p, f, r); s.Status != run.Completed || s.Iteration != 3 || s.Tokens != 50 || f.since[len(f.since)-1] != 3 || len(f.restored) != 1 {
		t.Errorf("it is %+v, compared with %d", s, f.since)
	}
	if s, err = rewind(t, p, f, r, nil, 0); err != nil || s.Iteration != 0 || f.restored[1] != 1 {
		t.Errorf("it is %+v, put back to %d, %v", s, f.restored, err)
	}
	events, err := r.Events()
	must(t, err)
	if _, err := Behind(events, 7); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("an iteration that was not made: %v", err)
	}
	if b, err := Behind(events, 3); err != nil || b.Checkpoint != 6 {
		t.Errorf("of two with a number the last is meant: %+v, %v", b, err)
	}
}

// TestRewindLateStop checks that a stop and a pause from after the loop's end do not end its new start.
func TestRewindLateStop(t *testing.T) {
	p := plan()
	p.Limits.MaxIterations = 2
	f := &fake{work: func(int) (Work, error) { return says(done) }, changes: always(1), green: always(false)}
	_, r := carry(t, p, f)
	must(t, r.Leave(run.Message{Kind: run.Stop, Actor: "ann"}))
	must(t, r.Leave(run.Message{Kind: run.Pause, Actor: "ann"}))
	must(t, r.Leave(run.Message{Kind: run.Hint, Text: "make it blue", Actor: "ann"}))
	_, err := rewind(t, p, f, r, nil, 1)
	must(t, err)
	f.green = always(true)
	if s := goOn(t.Context(), t, p, f, r); s.Status != run.Completed || !strings.Contains(f.prompts[2], "make it blue") {
		t.Errorf("it is %s (%s), and was told %q", s.Status, s.Reason, f.prompts)
	}
}

// TestRewindBeneath checks that a verdict does not count for the current files if files beneath them
// were changed since.
func TestRewindBeneath(t *testing.T) {
	for back := range 3 {
		p := plan()
		p.Limits.MaxIterations = 3
		f := &fake{work: func(int) (Work, error) { return says(done) }, changes: always(1), green: always(false)}
		_, r := carry(t, p, f)
		f.beneath = []string{"/proj/done.txt"}
		s, err := rewind(t, p, f, r, nil, back)
		must(t, err)
		if s.Verdict != nil || s.LastVerdict() != nil || !s.unjudged || !slices.Equal(s.Beneath, f.beneath) || s.Iteration != back {
			t.Errorf("at %d it is %+v", back, s)
		}
		f.green = always(true)
		if s = goOn(t.Context(), t, p, f, r); s.Status != run.Completed || len(s.Beneath) > 0 || strings.Contains(f.prompts[3], "What the last check found") {
			t.Errorf("at %d it is %s (%s), and was told %q", back, s.Status, s.Reason, f.prompts[3])
		}
	}
}

// TestRewindCutShort checks that the next carrier completes an interrupted rewind.
func TestRewindCutShort(t *testing.T) {
	p := plan()
	p.Limits.MaxIterations = 2
	f := &fake{work: func(int) (Work, error) { return says(done) }, changes: always(1), green: always(false)}
	_, r := carry(t, p, f)
	f.refuses = errors.New("the disk is full")
	if _, err := rewind(t, p, f, r, nil, 1); !errors.Is(err, f.refuses) {
		t.Fatal(err)
	}
	if s := goOn(t.Context(), t, p, f, r); s.Status != run.Failed || f.n != 2 {
		t.Errorf("with half of the files it is %+v", s)
	}
	f.refuses, f.green = nil, always(true)
	if s := goOn(t.Context(), t, p, f, r); s.Status != run.Completed || s.Iteration != 2 || !slices.Equal(f.restored, []int64{2, 2, 2}) {
		t.Errorf("it is %+v, put back to %d", s, f.restored)
	}
}

// TestRewindTasks checks that tasks whose work is gone are done again.
func TestRewindTasks(t *testing.T) {
	p, r, d := desk(t, "one", "two")
	f := &fake{work: func(int) (Work, error) { return says(done) }, changes: always(1), green: always(true)}
	workThrough(t.Context(), t, p, f, r, d)
	s, err := rewind(t, p, f, r, d, 1)
	must(t, err)
	if len(s.Closed) != 1 || at(t, d, "bd-one").Status != task.Closed || at(t, d, "bd-two").Status != task.Open {
		t.Fatalf("it is %+v", s)
	}
	if s = workThrough(t.Context(), t, p, f, r, d); s.Status != run.Completed || len(s.Closed) != 2 || f.n != 3 {
		t.Errorf("it is %+v after %d of work", s, f.n)
	}
}
