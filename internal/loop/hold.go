package loop

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/loop/taskqueue"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// errLost is the cause for cancelling work at a task that another holder has taken.
var errLost = errors.New("the task is another's")

// holding calls f while the claim of the task is renewed. If the claim is lost, f is cancelled, and the
// loop continues with another task.
func (l *Loop) holding(ctx context.Context, f func(context.Context) error) error {
	if l.Queue == nil || l.state.Task == nil {
		return f(ctx)
	}
	id := l.state.Task.ID
	if time.Since(l.renewed) > taskqueue.Lease/3 {
		if err := l.Queue.Renew(ctx, id); errors.Is(err, spec.ErrConflict) {
			return l.loseTask(err)
		}
		l.renewed = time.Now()
	}
	work, stop := context.WithCancelCause(ctx)
	var renewing sync.WaitGroup
	var why error
	renewing.Go(func() { why = l.renewClaim(work, id, stop) })
	err := f(work)
	stop(nil)
	renewing.Wait()
	if why == nil || ctx.Err() != nil || run.IsUnkept(err) {
		return err
	}
	return l.loseTask(why)
}

// renewClaim renews a claim until ctx is done. It returns an error if the claim ended before.
func (l *Loop) renewClaim(ctx context.Context, id string, stop context.CancelCauseFunc) error {
	again := time.NewTicker(taskqueue.Lease / 3)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
		}
		if err := l.Queue.Renew(ctx, id); errors.Is(err, spec.ErrConflict) {
			stop(errLost)
			return err
		} // other errors may be gone the next time
	}
}

func (l *Loop) loseTask(why error) error {
	return l.keepEvent(Lost, Left{Task: l.state.Task.ID, Why: why.Error(), Iteration: l.state.Iteration})
}

// takeTask claims the task to work on: the current one, if there is one.
func (l *Loop) takeTask(ctx context.Context) error {
	s := l.state
	id := ""
	if s.Task != nil {
		id = s.Task.ID
	}
	l.renewed = time.Now()
	t, err := l.Queue.Take(ctx, id, leftOf(s))
	switch {
	case err == nil:
		return l.keepEvent(Took, takenOf(t))
	case id != "" && errors.Is(err, spec.ErrConflict):
		return l.loseTask(err)
	case errors.Is(err, spec.ErrNotFound):
		return l.noneLeft(ctx)
	}
	return err
}

// noneLeft ends the loop by the gates' verdict on the current files: cancelled work may have
// changed them since the last verdict.
func (l *Loop) noneLeft(ctx context.Context) error {
	if err := l.judgeAgain(ctx); err != nil {
		return err
	}
	open, ready, err := OpenTasks(ctx, l.Queue, l.state)
	if err != nil || ready { // a task is ready by now: it is taken
		return err
	}
	return run.Unkept(l.endRun(run.ActorHost, noTask(l.state, open)))
}

// judgeAgain asks the gates about the loop's sandbox, if its files may have changed since the last
// verdict.
func (l *Loop) judgeAgain(ctx context.Context) error {
	s := l.state
	if !s.unjudged && !s.stale {
		return nil
	}
	kind, k, err := l.compareFiles(ctx, Seat{}, s, "run "+l.Run.ID+" goes on")
	if err != nil {
		return err
	}
	if s.unjudged {
		kind = Kept
	}
	if err := l.keepEvent(kind, k); err != nil || kind == Confirmed {
		return err
	}
	gates, _, err := l.Runner.Judge(ctx, k.Checkpoint, s.Baseline.Protected)
	if err != nil {
		return err
	}
	return l.keepEvent(Judged, Verdict{Iteration: s.Iteration, Checkpoint: k.Checkpoint, Gates: gates})
}

// leftOf returns the tasks that a loop does not take again.
func leftOf(s *State) (ids []string) {
	for _, l := range s.Left {
		ids = append(ids, l.Task)
	}
	return ids
}

// closedAs is the reason for closing a task. It does not contain the name of the run, which is made from
// the prompt: some words in a reason mean that a task has failed.
const closedAs = "done, and checked"

// closeTask closes the task. If the task cannot be closed, because open parts were found meanwhile, it
// is put back.
func (l *Loop) closeTask(ctx context.Context) error {
	s := l.state
	err := l.Queue.Close(ctx, s.Task.ID, closedAs, s.Work.Session)
	if errors.Is(err, spec.ErrConflict) {
		return l.putBack(ctx, "it cannot be closed: "+err.Error())
	}
	if err != nil {
		return err
	}
	return l.keepEvent(Closed, Finished{Task: s.Task.ID, Iteration: s.Iteration})
}

func (l *Loop) putBack(ctx context.Context, why string) error {
	s := l.state
	if err := l.Queue.PutBack(ctx, s.Task.ID, noteOf(l.Run.ID, why)); err != nil {
		return err
	}
	left := Left{Task: s.Task.ID, Why: why, Iteration: s.Iteration}
	if l.Plan.Tasks.Restore && s.before != nil && s.before.Checkpoint == s.from && len(s.before.Red()) == 0 && len(s.listFlaws()) > 0 {
		left.Checkpoint = s.from
	}
	left.Objected = left.Checkpoint == 0 && len(s.objections) > 0
	return l.keepEvent(PutBack, left)
}

// noteOf returns the note for a task that is not done.
func noteOf(id, why string) string {
	return fmt.Sprintf("%s, run %s: %s", time.Now().UTC().Format(time.DateOnly), id, run.Plain(why))
}
