package loop

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bothy-dev/bothy/internal/loop/taskqueue"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/spec"
)

// TestTasksOpen checks that a loop is not done while tasks are open that it cannot take, and that it
// continues with them as soon as it can.
func TestTasksOpen(t *testing.T) {
	p, r, d := desk(t, "mine", "yours", "after")
	now := time.Now().UTC()
	change := func(f func(g *task.Graph) error) {
		t.Helper()
		must(t, d.Store.Change(t.Context(), f))
	}
	change(func(g *task.Graph) error {
		if _, err := g.Update("bd-yours", "ann", false, now, func(t *task.Task) error { t.Labels = []string{"human"}; return nil }); err != nil {
			return err
		}
		_, err := g.Link("bd-after", task.Link{On: "bd-yours", Kind: task.Blocks}, "ann", now)
		return err
	})
	f := &fake{work: func(int) (Work, error) { return says(done) }, changes: always(1), green: always(true)}
	for range 2 { // again, until a person takes care of them
		s := workThrough(t.Context(), t, p, f, r, d)
		if s.Status != run.Waiting || s.Reason != ReasonTasksOpen || s.ExitCode() != spec.ExitWaiting || s.Final() || len(s.Closed) != 1 || f.n != 1 {
			t.Fatalf("after %d iterations it is %+v", f.n, s)
		}
		if s.OpenTasks[task.ReasonHuman] != 1 || s.OpenTasks[task.ReasonBlocked] != 1 || len(s.HeldUp) != 2 {
			t.Errorf("open are %v, %+v", s.OpenTasks, s.HeldUp)
		}
		if want := "1 task is done, no other is ready, and 2 are open: bd-yours (human), bd-after (blocked by bd-yours)"; s.Detail != want {
			t.Errorf("it says %q", s.Detail)
		}
		if open, ready, err := OpenTasks(t.Context(), d, s); err != nil || ready || len(open) != 2 {
			t.Errorf("it stands %+v, %v, %v", open, ready, err)
		}
	}
	change(func(g *task.Graph) error {
		_, _, err := g.Close("bd-yours", "ann", task.End{Reason: "decided"}, now)
		return err
	})
	s := workThrough(t.Context(), t, p, f, r, d)
	if s.Status != run.Completed || s.Reason != reasonDone || s.ExitCode() != 0 || len(s.Closed) != 2 || f.n != 2 || s.OpenTasks != nil || s.HeldUp != nil {
		t.Errorf("gone on with it is %+v", s)
	}
}

// TestTasksNever checks that a task for the case of a failure does not hold up a loop without
// failures.
func TestTasksNever(t *testing.T) {
	p, r, d := desk(t, "first", "else")
	must(t, d.Store.Change(t.Context(), func(g *task.Graph) error {
		_, err := g.Link("bd-else", task.Link{On: "bd-first", Kind: task.ConditionalBlocks}, "ann", time.Now().UTC())
		return err
	}))
	f := &fake{work: func(int) (Work, error) { return says(done) }, changes: always(1), green: always(true)}
	if s := workThrough(t.Context(), t, p, f, r, d); s.Status != run.Completed || s.Reason != reasonDone || f.n != 1 {
		t.Errorf("it is %+v", s)
	}
}

// TestTasksOpenMany checks that only the first of many open tasks are named.
func TestTasksOpenMany(t *testing.T) {
	open := make([]taskqueue.Open, 200)
	for i := range open {
		open[i] = taskqueue.Open{Task: "bd-x", Why: task.ReasonHuman}
	}
	e := noTask(&State{}, open)
	if e.Status != run.Waiting || len(e.HeldUp) != taskqueue.MaxOpen || e.Open[task.ReasonHuman] != 200 || !strings.HasSuffix(e.Detail, "and 195 more") {
		t.Errorf("it ends as %+v", e)
	}
	if e := noTask(&State{Left: []Left{{Task: "bd-y"}}}, open); e.Status != run.Completed || e.Reason != reasonTasksFailed || len(e.HeldUp) != taskqueue.MaxOpen {
		t.Errorf("with one that was put back it ends as %+v", e)
	}
}

// late is a store in which a change happens just before a read.
type late struct {
	task.Store
	then func()
}

func (l *late) View(ctx context.Context) (*task.Graph, error) {
	if then := l.then; then != nil {
		l.then = nil
		then()
	}
	return l.Store.View(ctx)
}

// TestTasksOpenLate checks two late changes: a task that becomes ready between the last look and
// the end is done, too, and a task that is assigned to another agent holds the loop up.
func TestTasksOpenLate(t *testing.T) {
	p, r, d := desk(t, "mine", "yours")
	now, store := time.Now().UTC(), d.Store
	update := func(f func(t *task.Task)) {
		t.Helper()
		must(t, store.Change(t.Context(), func(g *task.Graph) error {
			_, err := g.Update("bd-yours", "ann", false, now, func(t *task.Task) error { f(t); return nil })
			return err
		}))
	}
	update(func(t *task.Task) { t.Assignee = "ann" })
	f := &fake{work: func(int) (Work, error) { return says(done) }, changes: always(1), green: always(true)}
	s := workThrough(t.Context(), t, p, f, r, d)
	if s.Status != run.Waiting || s.Reason != ReasonTasksOpen || s.OpenTasks[task.ReasonClaimed] != 1 {
		t.Errorf("with a task of somebody else it is %s, %s, %v", s.Status, s.Reason, s.OpenTasks)
	}
	if _, ready, err := OpenTasks(t.Context(), d, s); ready || err != nil {
		t.Errorf("could it take another? %v, %v", ready, err)
	}
	d.Store = &late{store, func() { update(func(t *task.Task) { t.Assignee = "" }) }}
	if s = workThrough(t.Context(), t, p, f, r, d); s.Status != run.Completed || s.Reason != reasonDone || f.n != 2 || at(t, d, "bd-yours").Status != task.Closed {
		t.Errorf("after %d iterations it is %s, %s", f.n, s.Status, s.Reason)
	}
}

// TestTasksOpenByHand checks that the gates are asked again after a person did the task that held a loop
// up: the files may have changed since the gates agreed.
func TestTasksOpenByHand(t *testing.T) {
	p, r, d := desk(t, "mine", "yours")
	now := time.Now().UTC()
	must(t, d.Store.Change(t.Context(), func(g *task.Graph) error {
		_, err := g.Update("bd-yours", "ann", false, now, func(t *task.Task) error { t.Labels = []string{"human"}; return nil })
		return err
	}))
	f := &fake{work: func(int) (Work, error) { return says(done) }, changes: always(1), green: always(true)}
	if s := workThrough(t.Context(), t, p, f, r, d); s.Reason != ReasonTasksOpen {
		t.Fatalf("it is %s, %s", s.Status, s.Reason)
	}
	must(t, d.Store.Change(t.Context(), func(g *task.Graph) error {
		_, _, err := g.Close("bd-yours", "ann", task.End{Reason: "done by hand"}, now)
		return err
	}))
	f.green = always(false)
	if s := workThrough(t.Context(), t, p, f, r, d); s.Status != run.Stalled || s.Reason != "no_tasks" {
		t.Errorf("red by now, it is %s, %s", s.Status, s.Reason)
	}
	f.green = always(true)
	if s := workThrough(t.Context(), t, p, f, r, d); s.Status != run.Completed || s.Reason != reasonDone || f.n != 1 {
		t.Errorf("green again, it is %s, %s", s.Status, s.Reason)
	}
}

// TestTeamOpenByHand checks the same for several workers, who are idle then, and after any end:
// here a pause.
func TestTeamOpenByHand(t *testing.T) {
	p, r, d := hire(t, 2, "mine", "yours")
	now := time.Now().UTC()
	must(t, d.Store.Change(t.Context(), func(g *task.Graph) error {
		_, err := g.Update("bd-yours", "ann", false, now, func(t *task.Task) error { t.Labels = []string{"human"}; return nil })
		return err
	}))
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.main["file"] = "by hand"
		s, err := teamwork(t.Context(), t, p, b, r, d, nil)
		if must(t, err); s.Reason != ReasonTasksOpen {
			t.Fatalf("it is %s, %s", s.Status, s.Reason)
		}
		must(t, d.Store.Change(t.Context(), func(g *task.Graph) error {
			_, _, err := g.Close("bd-yours", "ann", task.End{Reason: "done by hand"}, now)
			return err
		}))
		for range 2 {
			b.main["file"], b.judge = "broken", func(f files) string {
				if f["file"] == "broken" {
					return "it is broken"
				}
				return ""
			}
			if s, err = teamwork(t.Context(), t, p, b, r, d, nil); err != nil || s.Status != run.Stalled || s.Reason != "no_tasks" {
				t.Errorf("red by now, it is %s, %s, %v", s.Status, s.Reason, err)
			}
		}
		b.main["file"] = "mended"
		s, err = teamwork(t.Context(), t, p, b, r, d, nil)
		if must(t, err); s.Status != run.Completed || s.Reason != reasonDone || b.jobs != 1 {
			t.Errorf("green again, it is %s, %s, after %d jobs", s.Status, s.Reason, b.jobs)
		}
	})
}

// TestPausedByHand checks that the gates are asked again, too, if a paused loop is resumed when no
// task is ready any more.
func TestPausedByHand(t *testing.T) {
	p, r, d := desk(t, "mine")
	f := &fake{work: func(int) (Work, error) { return says(done) }, changes: always(1), green: always(true)}
	h, _, err := r.Host()
	must(t, err)
	l := &Loop{Plan: p, Run: r, Host: h, Runner: f, Queue: d}
	l.Tell = func(ev run.Event, _ *State) {
		if ev.Type == Closed {
			must(t, r.Leave(run.Message{Kind: run.Pause, Actor: "ann"}))
		}
	}
	s, err := l.Carry(t.Context(), nil)
	must(t, err)
	h.Close()
	if s.Reason != "paused" {
		t.Fatalf("it is %s, %s", s.Status, s.Reason)
	}
	f.green = always(false)
	if s := workThrough(t.Context(), t, p, f, r, d); s.Status != run.Stalled || s.Reason != "no_tasks" {
		t.Errorf("red by now, it is %s, %s", s.Status, s.Reason)
	}
}
