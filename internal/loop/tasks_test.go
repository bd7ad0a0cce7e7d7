package loop

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/loop/taskqueue"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/internal/task/tasktest"
	"github.com/bothy-dev/bothy/spec"
)

// desk makes a loop that takes tasks, and adds these tasks to an empty project.
func desk(t *testing.T, titles ...string) (*loopplan.Plan, *run.Run, *taskqueue.Queue) {
	t.Helper()
	p := plan()
	p.Tasks = &loopplan.Tasks{Project: "/proj", Tries: 2}
	r, err := run.Create(filepath.Join(t.TempDir(), "runs"), "x", p)
	must(t, err)
	d := &taskqueue.Queue{Store: &tasktest.Store{}, Who: taskqueue.Holder(r.ID), Labels: p.Tasks.Labels}
	must(t, d.Store.Change(t.Context(), func(g *task.Graph) error {
		for i, title := range titles {
			one := task.Task{ID: "bd-" + title, Title: title, AcceptanceCriteria: "it is " + title, Priority: min(i, 4)}
			if _, err := g.Add(one, "", nil, "ann", time.Now().UTC()); err != nil {
				return err
			}
		}
		return nil
	}))
	return p, r, d
}

// at returns a task's current state.
func at(t *testing.T, d *taskqueue.Queue, id string) *task.Task {
	t.Helper()
	g, err := d.Store.View(context.Background())
	must(t, err)
	x, err := g.Find(id)
	must(t, err)
	return x
}

func workThrough(ctx context.Context, t *testing.T, p *loopplan.Plan, f *fake, r *run.Run, d *taskqueue.Queue) *State {
	t.Helper()
	h, events, err := r.Host()
	must(t, err)
	defer h.Close()
	s, err := (&Loop{Plan: p, Run: r, Host: h, Runner: f, Queue: d}).Carry(ctx, events)
	must(t, err)
	return s
}

func always[T any](v T) func(int) T { return func(int) T { return v } }

func TestTasks(t *testing.T) {
	p, r, d := desk(t, "blue", "red")
	f := &fake{work: func(int) (Work, error) { return says(done) }, changes: always(1), green: always(true)}
	s := workThrough(t.Context(), t, p, f, r, d)
	if s.Status != run.Completed || s.Reason != "done" || s.Iteration != 2 || len(s.Closed) != 2 || s.Task != nil || s.ExitCode() != 0 {
		t.Fatalf("it is %+v", s)
	}
	for i, id := range []string{"bd-blue", "bd-red"} {
		if x := at(t, d, id); x.Status != task.Closed || x.CloseReason != closedAs || x.Assignee != "run:x" {
			t.Errorf("%s is %+v", id, x)
		}
		if want := "# " + id + ": " + x(id) + "\n\nAccepted if:\n\nit is " + x(id) + "\n\n"; !strings.Contains(f.prompts[i], want) {
			t.Errorf("it was told %q", f.prompts[i])
		}
	}
	if s = workThrough(t.Context(), t, p, f, next(t, r), d); s.Status != run.Completed || f.n != 2 {
		t.Errorf("with nothing to do it is %+v", s)
	}
	f.green = always(false)
	if s = workThrough(t.Context(), t, p, f, next(t, r), d); s.Status != run.Stalled || s.Reason != "no_tasks" || f.n != 2 {
		t.Errorf("with nothing to do, and a red gate, it is %+v", s)
	}
}

// TestTaskAhead checks that preparing the next iteration continues after the gates have judged: the end
// of one step's claim renewal cancels nothing for the next step.
func TestTaskAhead(t *testing.T) {
	p, r, d := desk(t, "blue")
	f := &fake{work: func(n int) (Work, error) {
		if n == 2 {
			return says(done)
		}
		return says("not yet")
	}, changes: always(1), green: always(true)}
	workThrough(t.Context(), t, p, f, r, d)
	if !slices.Equal(f.ahead, []int{1}) || len(f.cut) > 0 {
		t.Errorf("it was got ready for behind iterations %v, and given up in %v", f.ahead, f.cut)
	}
}

func x(id string) string { return strings.TrimPrefix(id, "bd-") }

// next returns another run of the same kind.
func next(t *testing.T, r *run.Run) *run.Run {
	t.Helper()
	again, err := run.Create(filepath.Join(t.TempDir(), "runs"), r.ID, plan())
	must(t, err)
	return again
}

// TestTaskStaysRed checks that a task that cannot be done is put back, and that the other tasks are
// done.
func TestTaskStaysRed(t *testing.T) {
	p, r, d := desk(t, "hard", "easy")
	f := &fake{changes: always(1)}
	f.work = func(int) (Work, error) { return says(done) }
	f.green = func(n int) bool { return n > 2 }
	s := workThrough(t.Context(), t, p, f, r, d)
	if s.Status != run.Completed || s.Reason != "tasks_failed" || s.ExitCode() != spec.ExitPartly || s.Iteration != 3 {
		t.Fatalf("it is %+v", s)
	}
	if x := at(t, d, "bd-hard"); x.Status != task.Open || x.Assignee != "" || !strings.Contains(x.Notes, "run x: it is not done after 2 iterations") {
		t.Errorf("what cannot be done is %+v", x)
	}
	if x := at(t, d, "bd-easy"); x.Status != task.Closed {
		t.Errorf("what can be done is %+v", x)
	}

	p, r, d = desk(t, "hard")
	f.green = always(false)
	if s = workThrough(t.Context(), t, p, f, r, d); s.Status != run.Stalled || s.Reason != "tasks_failed" || s.ExitCode() != spec.ExitStalled {
		t.Fatalf("if the gates are red, too, it is %+v", s)
	}
	f.green = always(true) // the next carrier gives it all its tries again
	if s = workThrough(t.Context(), t, p, f, r, d); s.Status != run.Completed || s.Reason != "done" || len(s.Left) != 0 {
		t.Errorf("gone on with it is %+v", s)
	}
	p, r, d = desk(t, "hard")
	f.work = func(int) (Work, error) { return says("<promise>NO</promise>") }
	if s = workThrough(t.Context(), t, p, f, r, d); s.Reason != "tasks_failed" || s.Left[0].Why != "the agent gave up" {
		t.Errorf("given up it is %+v", s)
	}
}

// TestTaskRestore checks that the files from before a task that cannot be done are restored, if the task
// broke a green check: otherwise no other task could be done.
func TestTaskRestore(t *testing.T) {
	p, r, d := desk(t, "hard", "easy")
	p.Tasks.Restore = true
	f := &fake{work: func(int) (Work, error) { return says(done) }, changes: always(1)}
	f.green = func(n int) bool { return n == 0 || n > 2 }
	s := workThrough(t.Context(), t, p, f, r, d)
	if s.Reason != "tasks_failed" || s.Status != run.Completed || !slices.Equal(f.restored, []int64{1}) || f.since[3] != 1 {
		t.Fatalf("it is %+v, put back to %d, compared with %d", s, f.restored, f.since)
	}
	if strings.Contains(f.prompts[2], "What the last check found") {
		t.Errorf("the next task begins with what is gone: %q", f.prompts[2])
	}

	p, r, d = desk(t, "hard")
	p.Tasks.Restore = true
	f = &fake{work: f.work, changes: always(1), green: func(n int) bool { return n == 0 }, refuses: spec.ErrNotFound}
	if s = workThrough(t.Context(), t, p, f, r, d); s.Status != run.Stalled || s.Reason != "tasks_failed" {
		t.Errorf("if the checkpoint was removed it is %+v", s)
	}
	f.refuses = nil
	if s = workThrough(t.Context(), t, p, f, r, d); s.Status == run.Completed {
		t.Errorf("with red gates it is %+v", s)
	}
	p, r, d = desk(t, "hard")
	p.Tasks.Restore = true
	f = &fake{work: f.work, changes: always(1), green: always(false)}
	if s = workThrough(t.Context(), t, p, f, r, d); len(f.restored) != 0 || s.Status != run.Stalled {
		t.Errorf("if it was red before it is %+v, put back to %d", s, f.restored)
	}
}

// TestTaskInterrupted checks that the task is given back when the loop ends, and taken again
// later.
func TestTaskInterrupted(t *testing.T) {
	p, r, d := desk(t, "one", "two")
	ctx, cancel := context.WithCancelCause(t.Context())
	f := &fake{changes: always(1), green: always(true)}
	f.work = func(int) (Work, error) {
		if x := at(t, d, "bd-one"); x.Status != task.InProgress || x.Assignee != "run:x" || x.LeaseExpiresAt == nil {
			t.Errorf("meanwhile it is %+v", x)
		}
		cancel(&spec.Exited{Code: 143})
		return says(done)
	}
	s := workThrough(ctx, t, p, f, r, d)
	if x := at(t, d, "bd-one"); s.Status != run.Interrupted || s.Task == nil || x.Status != task.Open || x.Notes != "" {
		t.Fatalf("it is %+v, the task %+v", s, x)
	}
	must(t, d.Store.Change(t.Context(), func(g *task.Graph) error { // meanwhile another agent takes it
		_, err := g.Claim("bd-one", "ben", time.Hour, time.Now().UTC())
		return err
	}))
	f.work = func(int) (Work, error) { return says(done) }
	s = workThrough(t.Context(), t, p, f, r, d)
	if s.Status != run.Completed || s.Reason != "tasks_failed" || at(t, d, "bd-one").Assignee != "ben" || at(t, d, "bd-two").Status != task.Closed {
		t.Errorf("it is %+v", s)
	}
}

// TestTaskLost checks that work stops at a task that another holder took because the lease ran out.
func TestTaskLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, r, d := desk(t, "one", "two")
		f := &patient{fake: &fake{changes: always(1), green: always(true)}}
		f.first = func(ctx context.Context) {
			time.Sleep(taskqueue.Lease + time.Minute) // the claim is renewed meanwhile
			if x := at(t, d, "bd-one"); !x.LeaseExpiresAt.After(time.Now()) {
				t.Errorf("it is held until %s", x.LeaseExpiresAt)
			}
			must(t, d.Store.Change(ctx, func(g *task.Graph) error {
				_, err := g.Release("bd-one", "", true, time.Now())
				return err
			}))
			<-ctx.Done()
		}
		h, events, err := r.Host()
		must(t, err)
		defer h.Close()
		s, err := (&Loop{Plan: p, Run: r, Host: h, Runner: f, Queue: d}).Carry(t.Context(), events)
		must(t, err)
		if len(s.Left) != 1 || s.Left[0].Task != "bd-one" || len(s.Closed) != 1 || s.Closed[0].Task != "bd-two" {
			t.Errorf("it is %+v", s)
		}
	})
}

// patient is a runner whose first job takes a long time.
type patient struct {
	*fake
	first func(context.Context)
}

func (f *patient) Work(ctx context.Context, job Job) (Work, error) {
	if f.n++; f.n == 1 {
		f.first(ctx)
		return Work{}, ctx.Err()
	}
	return says(done)
}

// TestTaskLostLast checks that the gates judge the leftovers if no other task exists.
func TestTaskLostLast(t *testing.T) {
	p, r, d := desk(t, "one")
	f := &fake{changes: always(1), green: func(n int) bool { return n == 0 }}
	ctx, cancel := context.WithCancelCause(t.Context())
	f.work = func(int) (Work, error) {
		cancel(&spec.Exited{Code: 143})
		return says(done)
	}
	workThrough(ctx, t, p, f, r, d)
	must(t, d.Store.Change(t.Context(), func(g *task.Graph) error {
		_, _, err := g.Close("bd-one", "ben", task.End{}, time.Now().UTC())
		return err
	}))
	if s := workThrough(t.Context(), t, p, f, r, d); s.Status != run.Stalled || s.Verdict == nil || len(f.since) != 2 {
		t.Errorf("it is %+v", s)
	}
}

// TestTaskCrash stops a loop after each of its events, with the claims of that moment, and resumes it:
// every task is closed, and none is done twice.
func TestTaskCrash(t *testing.T) {
	whole := func() *fake {
		return &fake{work: func(int) (Work, error) { return says(done) }, changes: always(1), green: always(true)}
	}
	p, r, d := desk(t, "one", "two")
	workThrough(t.Context(), t, p, whole(), r, d)
	events, err := r.Events()
	must(t, err)
	for n := range len(events) - 1 {
		for _, ahead := range []bool{false, true} { // the next event's action was done, too
			p, r, d := desk(t, "one", "two")
			h, _, err := r.Host()
			must(t, err)
			f := whole()
			did := events[:n]
			if ahead {
				did = events[:n+1]
			}
			for i, ev := range did {
				s, err := Fold(events[:i])
				must(t, err)
				switch ev.Type {
				case Took:
					_, err = d.Take(t.Context(), "", nil)
				case Closed:
					err = d.Close(t.Context(), s.Task.ID, "done", "")
				case Worked:
					f.n++
				}
				must(t, err)
				if i < n {
					if ev.Type == Kept {
						f.at = f.n
					}
					var data any
					if ev.Data != nil {
						data = ev.Data
					}
					_, err = h.Append(ev.Type, ev.Actor, data)
					must(t, err)
				}
			}
			h.Close()
			again := 0
			if ahead && events[n].Type == Worked {
				again = 1 // the iteration was not recorded
			}
			s := workThrough(t.Context(), t, p, f, r, d)
			closed := []string{}
			for _, c := range s.Closed {
				closed = append(closed, c.Task)
			}
			if s.Status != run.Completed || !slices.Equal(closed, []string{"bd-one", "bd-two"}) || f.n != 2+again {
				t.Errorf("cut off behind %d events (%v): %s (%s), %q closed, %d of work", n, ahead, s.Status, s.Reason, closed, f.n)
			}
		}
	}
}

func TestTaskCheck(t *testing.T) {
	for name, spoil := range map[string]func(*loopplan.Plan){
		"tries":    func(p *loopplan.Plan) { p.Tasks.Tries = 0 },
		"least":    func(p *loopplan.Plan) { p.Limits.MinIterations = 2 },
		"template": func(p *loopplan.Plan) { p.Template = "{{prompt}}" },
	} {
		p := plan()
		p.Tasks = &loopplan.Tasks{Tries: 1}
		must(t, p.Check())
		if spoil(p); p.Check() == nil {
			t.Errorf("%s is admitted", name)
		}
	}
}
