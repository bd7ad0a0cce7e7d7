package loop

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/run"
)

// TeamRunner is a runner for several concurrent workers, each at its own seat. Several goroutines call
// its methods.
type TeamRunner interface {
	Runner
	// Hand copies a checkpoint into a seat's place.
	Hand(ctx context.Context, seat Seat, checkpoint int64) error
	// Join makes a checkpoint that merges the changes from base to theirs with the current files of the
	// loop's sandbox, or returns the conflicts.
	Join(ctx context.Context, base, theirs int64, cause string) (Join, error)
	// Settle copies a checkpoint into the loop's sandbox, if that still has the files of ours;
	// otherwise the error is ErrMoved.
	Settle(ctx context.Context, ours, checkpoint int64) error
	// Spent returns the usage of models for a seat since its work began.
	Spent(ctx context.Context, seat Seat) (tokens int64, usd float64, err error)
}

// ErrMoved says that the loop's sandbox was changed while the merge for it was judged.
var ErrMoved = errors.New("the loop's sandbox was changed meanwhile")

// team carries on a loop with several workers. One goroutine makes and records all decisions. Long
// actions run in other goroutines, one for each worker. Merges are made one after the other.
type team struct {
	*Loop
	runner TeamRunner // the loop's

	hands  []*hand
	done   chan outcome
	ending *End         // no further action begins, for this reason
	pause  *run.Message // a person wants the loop to pause
	looked time.Time    // last look for ready tasks
}

// hand is the current action of a worker.
type hand struct {
	worker  int
	stop    context.CancelCauseFunc // nil: no action
	what    string                  // the type of the event for its result
	at      Seat                    // the seat of the action
	task    string                  // ID of the task that it is taking
	renewed time.Time               // last renewal of its task's claim
	lost    error                   // another holder has the task
	idle    bool                    // it found no task
	spent   chan spend              // its newest use
	spend   spend
}

// outcome is the result of an action, as a function that records it.
type outcome struct {
	worker int
	then   func() error
	err    error
}

func newTeam(l *Loop) *team {
	t := &team{Loop: l, runner: l.Runner.(TeamRunner), done: make(chan outcome, l.Plan.Workers)}
	for n := range l.Plan.Workers {
		t.hands = append(t.hands, &hand{worker: n + 1, spent: make(chan spend, 1)})
		l.state.worker(n + 1)
	}
	return t
}

func (t *team) carryTeam(ctx context.Context) (*State, error) {
	err := t.Run.Carry(ctx, run.Work{
		Begin:   t.beginRun,
		Running: func() bool { return t.state.Status == run.Running },
		Hear:    t.hearMessage,
		Step:    t.takeStep,
		End:     func(actor string, r run.Result) error { return t.endRun(actor, endEvent(r)) },
	})
	return t.state, errors.Join(err, t.drainActions()) // no action continues, even if a result could not be recorded
}

// hearMessage handles a message of a person. A pause waits until all workers are idle.
func (t *team) hearMessage(m run.Message) (taken bool, err error) {
	if m.Kind == run.Pause {
		t.pause = &m
		return false, nil
	}
	return true, t.adviseLoop(m)
}

// endRun records that the loop is not carried on, once no action is running any more.
func (t *team) endRun(actor string, e End) error {
	if err := t.drainActions(); err != nil {
		return err
	}
	return t.Loop.endRun(actor, e)
}

// drainActions cancels all running actions. It records the results that exist by then, and the usage of
// those without a result.
func (t *team) drainActions() (err error) {
	for _, h := range t.hands {
		if h.stop != nil {
			h.stop(errOver)
		}
	}
	for t.countBusy() > 0 {
		o := <-t.done
		t.freeHand(o)
		if o.then != nil && err == nil {
			if err = o.then(); !run.IsUnkept(err) {
				err = nil // the reason of the end is known already
			}
		}
	}
	return err
}

// errOver is the cause for cancelling work when the loop ends.
var errOver = errors.New("the loop ends")

func (t *team) countBusy() (n int) {
	for _, h := range t.hands {
		if h.stop != nil {
			n++
		}
	}
	return n
}

// freeHand makes a hand ready for its next action.
func (t *team) freeHand(o outcome) {
	h := t.hands[o.worker-1]
	h.stop(nil)
	if o.err != nil && h.task != "" { // only its claim exists
		_ = t.Queue.PutBack(context.Background(), h.task, "") // otherwise its lease expires
	}
	h.stop, h.what, h.task, h.spend = nil, "", "", spend{}
	select {
	case <-h.spent:
	default:
	}
}

// takeStep begins all actions that it can, and waits until one ends, or until it is time for the
// periodic checks.
func (t *team) takeStep(ctx context.Context) error {
	if t.state.Baseline == nil {
		return t.judgeBaseline(ctx)
	}
	if err := t.watchTeam(ctx); err != nil {
		return err
	}
	before := t.kept
	for _, h := range t.hands {
		if h.stop == nil {
			if err := t.beginStep(ctx, h); err != nil || t.state.Status != run.Running {
				return err
			}
		}
	}
	switch {
	case t.countBusy() > 0:
	case t.kept != before: // a worker has a next step
		return nil
	default:
		if over, err := t.endIfQuiet(ctx); over || err != nil {
			return err
		}
	}
	select {
	case o := <-t.done:
		return t.keepOutcome(ctx, o)
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(lookEvery):
		return nil
	}
}

// lookEvery is how often to look for messages, claims and use. tasksEvery is how often to look for
// tasks that others have made ready.
const (
	lookEvery  = 200 * time.Millisecond
	tasksEvery = 5 * time.Second
)

// keepOutcome records the result of an action.
func (t *team) keepOutcome(ctx context.Context, o outcome) error {
	h := t.hands[o.worker-1]
	what := h.what
	t.freeHand(o)
	var err error
	if o.then != nil {
		err = o.then()
	}
	if err != nil || ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	if h.lost != nil {
		return t.loseTask(h)
	}
	if t.ending != nil && (errors.Is(o.err, errSpent) || errors.Is(o.err, context.Canceled)) {
		return nil // the loop ends for that reason
	}
	if o.err != nil && slices.Contains([]string{Took, Handed, Worked, Kept}, what) && t.Runner.Gone(h.at) {
		return nil // its place is replaced before another action there
	}
	return o.err
}

// loseTask records that another holder has taken a task.
func (t *team) loseTask(h *hand) error {
	why := h.lost
	h.lost = nil
	w := t.state.Workers[h.worker-1]
	if w.Task == nil {
		return nil
	}
	t.wakeIdle()
	return t.keepEvent(Lost, Left{By: h.workerID(), Task: w.Task.ID, Why: why.Error(), Iteration: w.Iteration})
}

func (h *hand) workerID() By { return By{Worker: h.worker} }

func (h *hand) seat() Seat { return Seat{Worker: h.worker} }

// wakeIdle makes idle workers look for tasks again.
func (t *team) wakeIdle() {
	for _, h := range t.hands {
		h.idle = false
	}
}

// windDown stops new actions.
func (t *team) windDown(end *End) {
	if t.ending == nil {
		t.ending = end
	}
}

// beginAction starts a long action at a seat. When it has ended, the team's goroutine records its
// result.
func (t *team) beginAction(ctx context.Context, h *hand, at Seat, what string, do func(context.Context) (func() error, error)) {
	ctx, h.stop = context.WithCancelCause(ctx)
	h.what, h.at = what, at
	go func() {
		then, err := do(ctx)
		t.done <- outcome{h.worker, then, err}
	}()
}

// winding reports whether no new action may begin.
func (t *team) winding() bool { return t.ending != nil || t.pause != nil }

// endIfQuiet ends the loop when all workers are idle and no action may begin, or when no task is left. A task
// whose agent waits for an allowance is not finished.
func (t *team) endIfQuiet(ctx context.Context) (over bool, err error) {
	open := slices.ContainsFunc(t.state.Workers, func(w *State) bool { return w.Task != nil })
	switch {
	case t.ending != nil:
		return true, run.Unkept(t.endRun(run.ActorHost, *t.ending))
	case t.pause != nil:
		err := t.endRun(t.pause.Actor, End{Status: run.Waiting, Reason: "paused"})
		if err == nil {
			err = t.Run.Take(*t.pause)
		}
		return true, run.Unkept(err)
	case !open && !slices.ContainsFunc(t.hands, func(h *hand) bool { return !h.idle }):
		if err := t.judgeAgain(ctx); err != nil {
			return true, err
		}
		left, ready, err := OpenTasks(ctx, t.Queue, t.state)
		if err != nil {
			return true, err
		}
		if ready { // a task is ready by now
			t.wakeIdle()
			return false, nil
		}
		return true, run.Unkept(t.endRun(run.ActorHost, noTask(t.state, left)))
	}
	return false, nil
}
