package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/loop/taskqueue"
	"github.com/bothy-dev/bothy/spec"
)

// This file has the steps of workers.

// beginStep begins the next step of a worker, or leaves it waiting.
func (t *team) beginStep(ctx context.Context, h *hand) error {
	w := t.state.Workers[h.worker-1]
	step := NextOf(t.Plan, t.state, w, time.Now())
	if (step.Take || step.Iterate > 0) && t.winding() {
		return nil
	}
	at := t.seatOf(h, w, step)
	if needsPlace(w, step) && !(step.Take && h.idle) && t.Runner.Gone(at) {
		return t.remakePlace(ctx, h, w, at)
	}
	switch {
	case step.Take:
		return t.claimTask(ctx, h, w)
	case step.End != nil:
		t.windDown(step.End)
		return nil
	case step.Iterate > 0 && !w.hasBegun(step.Iterate) && w.holder != at.Agent:
		return t.handFiles(ctx, h, w, at)
	case step.Iterate > 0:
		return t.runIteration(ctx, h, w, at, step.Iterate)
	case step.Review != nil:
		return t.askReviewer(ctx, h, w, step.Review)
	case step.PutBack != "":
		return t.putBack(ctx, h, w, step)
	case step.Close:
		return t.closeTask(ctx, h, w)
	case step.Confirm && t.Runner.Gone(at): // its files cannot have changed
		return t.keepEvent(Confirmed, Keep{By: h.workerID(), Iteration: w.Iteration, Checkpoint: w.checked, Again: true})
	case step.Join && t.joining(), !step.Wait.IsZero():
		return nil
	}
	what := ""
	switch {
	case step.Join:
		what = Joined
	case step.Keep, step.Confirm:
		what = Kept
	}
	now, baseline := *w, t.state.Baseline.Protected
	t.beginAction(ctx, h, at, what, func(ctx context.Context) (func() error, error) { return t.takeAction(ctx, h, now, step, baseline) })
	return nil
}

// seatOf returns the seat at which a worker takes a step.
func (t *team) seatOf(h *hand, w *State, step Step) Seat {
	switch {
	case step.Iterate > 0:
		return workerSeat(t.Plan, h.worker, w.turnOf(step.Iterate))
	case step.Keep, step.Confirm, step.Guard:
		return Seat{Worker: h.worker, Agent: w.Agent}
	}
	return h.seat()
}

// handFiles copies the worker's files into the place of the agent whose turn it is.
func (t *team) handFiles(ctx context.Context, h *hand, w *State, at Seat) error {
	n := w.checked
	t.beginAction(ctx, h, at, Handed, func(ctx context.Context) (func() error, error) {
		err := t.runner.Hand(ctx, at, n)
		return t.keeping(err, Handed, Hand{at, n})
	})
	return nil
}

// needsPlace reports whether a step needs the files in a worker's place. Steps on its checkpoints do
// not: the result of a worker with a task can be judged and joined without a place.
func needsPlace(w *State, step Step) bool {
	return step.Take && w.Task == nil || step.Iterate > 0 || step.Keep || step.Guard
}

// remakePlace replaces a removed place. Ending a loop that can be resumed also removes places. Files of
// the old place that are in no checkpoint are lost, and then the task goes to the next worker that takes
// it. The place of an agent whose turn is over has no such files.
func (t *team) remakePlace(ctx context.Context, h *hand, w *State, at Seat) error {
	if w.Task != nil && w.holder == at.Agent && (w.step == Iteration || w.step == Worked) {
		return t.putBack(ctx, h, w, Step{PutBack: "the sandbox was removed during this work: changes since its last checkpoint are lost", Again: true})
	}
	return t.Loop.remakePlace(ctx, at)
}

// joining reports whether a merge is running. Only one may be, or the second would lack the changes of
// the first.
func (t *team) joining() bool {
	return slices.ContainsFunc(t.hands, func(h *hand) bool { return h.what == Joined }) ||
		slices.ContainsFunc(t.state.Workers, func(w *State) bool { return w.step == Joined || w.step == Rejudged || w.step == Settled })
}

// takeAction takes a step whose result alone is recorded.
func (t *team) takeAction(ctx context.Context, h *hand, w State, step Step, baseline map[string]string) (func() error, error) {
	at := fmt.Sprintf("run %s iteration %d, worker %d", t.Run.ID, w.Iteration, h.worker)
	switch {
	case step.Keep:
		k, err := t.keepDone(ctx, Seat{Worker: h.worker, Agent: w.Agent}, &w, at)
		k.By = h.workerID()
		return t.keeping(err, Kept, k)
	case step.Guard:
		g, err := t.guardFiles(ctx, Seat{Worker: h.worker, Agent: w.Agent}, baseline, at)
		g.By = h.workerID()
		return t.keeping(err, Guarded, g)
	case step.Confirm:
		kind, k, err := t.compareFiles(ctx, Seat{Worker: h.worker, Agent: w.Agent}, &w, at+", goes on")
		k.By = h.workerID()
		return t.keeping(err, kind, k)
	case step.Judge:
		gates, _, err := t.Runner.Judge(ctx, w.checked, baseline)
		return t.keeping(err, Judged, Verdict{By: h.workerID(), Iteration: w.Iteration, Checkpoint: w.checked, Gates: gates})
	case step.Join:
		return t.joinResult(ctx, h, &w, at)
	case step.Rejudge:
		gates, _, err := t.Runner.Judge(ctx, w.Join.Checkpoint, baseline)
		return t.keeping(err, Rejudged, Verdict{By: h.workerID(), Iteration: w.Iteration, Checkpoint: w.Join.Checkpoint, Gates: gates})
	case step.Settle:
		err := t.runner.Settle(ctx, w.Join.Ours, w.Join.Checkpoint)
		if errors.Is(err, ErrMoved) { // by a person: no other worker may change it
			return t.joinResult(ctx, h, &w, at)
		}
		return t.keeping(err, Settled, Settle{h.workerID(), w.Join.Checkpoint})
	}
	return nil, fmt.Errorf("unknown step: %+v", step)
}

// joinResult merges a worker's result with the files of the loop's sandbox.
func (t *team) joinResult(ctx context.Context, h *hand, w *State, at string) (func() error, error) {
	j, err := t.runner.Join(ctx, w.from, w.checked, at+", with what others have done")
	j.By, j.Task, j.Iteration = h.workerID(), w.Task.ID, w.Iteration
	return t.keeping(err, Joined, j)
}

// keeping returns a function that records a result, unless there was an error.
func (t *team) keeping(err error, kind string, data any) (func() error, error) {
	if err != nil {
		return nil, err
	}
	return func() error { return t.keepEvent(kind, data) }, nil
}

// claimTask claims a task for a worker, and copies the newest state into its place.
func (t *team) claimTask(ctx context.Context, h *hand, w *State) error {
	if h.idle {
		return nil
	}
	id, next := "", ""
	var except []string
	if w.Task != nil {
		id = w.Task.ID
	} else {
		var wait bool
		var err error
		if next, wait, err = t.findAlone(ctx); err != nil || wait {
			h.idle = wait // until another worker has finished something
			return err
		}
		except = append(leftOf(t.state), t.inHand()...)
	}
	h.renewed = time.Now()
	claimed, err := t.Queue.Take(ctx, cmp.Or(id, next), except)
	switch {
	case next != "" && errors.Is(err, spec.ErrConflict): // another holder was faster
		return nil
	case id != "" && errors.Is(err, spec.ErrConflict):
		h.lost = err
		return t.loseTask(h)
	case errors.Is(err, spec.ErrNotFound):
		h.idle = true
		return nil
	case err != nil:
		return err
	}
	taken := takenOf(claimed)
	if taken.By = h.workerID(); id != "" { // it continues with its own files
		return t.keepEvent(Took, taken)
	}
	h.task = taken.ID
	t.beginAction(ctx, h, h.seat(), Took, func(ctx context.Context) (func() error, error) {
		n, err := t.Runner.Begin(ctx, h.seat())
		taken.Base = n
		return t.keeping(err, Took, taken)
	})
	return nil
}

// inHand returns the tasks that workers have, or are taking.
func (t *team) inHand() []string {
	list := t.state.tasksInHand()
	for _, h := range t.hands {
		if h.task != "" && !slices.Contains(list, h.task) {
			list = append(list, h.task)
		}
	}
	return list
}

// findAlone returns the task to take now with every other worker idle. wait is true if another worker is
// still busy, or has such a task.
func (t *team) findAlone(ctx context.Context) (id string, wait bool, err error) {
	if len(t.state.alone) == 0 {
		return "", false, nil
	}
	busy := t.inHand()
	if slices.ContainsFunc(busy, func(id string) bool { return slices.Contains(t.state.alone, id) }) {
		return "", true, nil
	}
	ready, _, err := TasksAhead(ctx, t.Queue, t.state)
	if err != nil {
		return "", false, err
	}
	for _, id := range t.state.alone {
		if slices.ContainsFunc(ready, func(o taskqueue.Open) bool { return o.Task == id }) {
			return id, len(busy) > 0, nil
		}
	}
	return "", false, nil
}

// runIteration runs a worker's agent.
func (t *team) runIteration(ctx context.Context, h *hand, w *State, at Seat, n int) error {
	told := *w
	told.Hints = slices.Concat(w.given, t.state.Hints)
	prompt, hints := Prompt(t.Plan, &told, n)
	model := t.Plan.ModelOf(w.turnOf(n))
	if err := t.keepEvent(Iteration, Begun{By: h.workerID(), Iteration: n, Hints: hints, Agent: at.Agent, Model: model}); err != nil {
		return err
	}
	job := Job{
		Seat: at, Prompt: prompt, Model: model, Limit: workLimit(t.Plan, t.state, time.Now()), Idle: time.Duration(t.Plan.Limits.Idle),
		Budget: budgetOf(t.Plan, t.state), Rest: budgetLeft(t.Plan, t.usageNow()),
	}
	bounded := job.Rest != (spec.Budget{})
	t.beginAction(ctx, h, at, Worked, func(ctx context.Context) (func() error, error) {
		if bounded {
			watching, stop := context.WithCancel(ctx)
			var follower sync.WaitGroup
			follower.Go(func() { t.follow(watching, h) })
			defer follower.Wait()
			defer stop()
		}
		k, err := t.runAgent(ctx, job, n)
		if sandboxCrashed(ctx, &k) {
			return t.keeping(nil, Cut, k)
		}
		if err != nil && !k.hasUsage() {
			return nil, err
		}
		kind := Worked
		if err != nil {
			kind = Cut
		}
		return func() error { return t.keepEvent(kind, k) }, err
	})
	return nil
}

// askReviewer asks a reviewer about a worker's result.
func (t *team) askReviewer(ctx context.Context, h *hand, w *State, c *loopplan.Criterion) error {
	checkpoint, n := w.checked, w.Iteration
	if w.step == Rejudged {
		checkpoint = w.Join.Checkpoint
	}
	a := Asking{By: h.workerID(), Iteration: n, Gate: c.ID}
	if err := t.keepEvent(Reviewing, a); err != nil {
		return err
	}
	job := reviewJob(t.Plan, t.usageNow(), w, checkpoint, c)
	t.beginAction(ctx, h, h.seat(), Reviewed, func(ctx context.Context) (func() error, error) {
		kind, what, err := t.reviewFiles(ctx, job, c, a)
		if kind == "" {
			return nil, err
		}
		return func() error { return t.keepEvent(kind, what) }, err
	})
	return nil
}

func (t *team) putBack(ctx context.Context, h *hand, w *State, step Step) error {
	if err := t.Queue.PutBack(ctx, w.Task.ID, noteOf(t.Run.ID, step.PutBack)); err != nil {
		return err
	}
	t.wakeIdle()
	return t.keepEvent(PutBack, Left{By: h.workerID(), Task: w.Task.ID, Why: step.PutBack, Iteration: w.Iteration, Again: step.Again, Outrun: step.Outrun})
}

// closeTask closes a task whose result is in the loop's sandbox.
func (t *team) closeTask(ctx context.Context, h *hand, w *State) error {
	err := t.Queue.Close(ctx, w.Task.ID, closedAs, w.Work.Session)
	if errors.Is(err, spec.ErrConflict) {
		return t.putBack(ctx, h, w, Step{PutBack: "it cannot be closed: " + err.Error()})
	}
	if err != nil {
		return err
	}
	t.wakeIdle()
	return t.keepEvent(Closed, Finished{h.workerID(), w.Task.ID, w.Iteration})
}
