package runstate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/loop/taskqueue"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runner"
	"github.com/bothy-dev/bothy/internal/task/book"
	"github.com/bothy-dev/bothy/spec"
)

// Loop is an existing loop.
type Loop struct {
	Record
	Plan  loopplan.Plan
	State *loop.State
	Spent []loop.Spent // by iteration
	Pause bool         // a user asked for a pause that is still due
}

func (l *Loop) Progress() State { return l.State }

func (l *Loop) Result() *run.Result { return &l.State.Result }

func (l *Loop) Standing() run.Result { return standingOf(l.State, l.State.Result) }

// ReadLoop reads the state of a loop. A loop that is recorded as running but has no host was
// interrupted.
func ReadLoop(e *engine.Engine, r *run.Run) (*Loop, error) {
	l := &Loop{Record: Record{Engine: e, Run: r}}
	mail, err := l.readRecord(&l.Plan, func(events []run.Event) (err error) {
		if err = l.Fold(events); err == nil {
			l.Spent, err = loop.Ledger(events)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	l.Directory = l.Plan.Directory
	l.noteCrash(&l.State.Result, l.State.Ready)
	l.Pause = l.State.Expect(mail) && l.Hosted
	return l, nil
}

// Fold computes the state from events.
func (l *Loop) Fold(events []run.Event) (err error) {
	if l.State, err = loop.Fold(events); err == nil {
		l.Raised, err = run.Raises(events)
	}
	l.Plan.Raise(l.Raised)
	return err
}

// CanGoOn reports whether a loop stopped at a limit that was raised since.
func (l *Loop) CanGoOn() bool {
	return l.State.Status == run.Limited && loop.Reached(&l.Plan, l.State) == nil
}

// LoopView is the state of a loop in JSON.
type LoopView struct {
	Head
	*loop.State
	Until      time.Time      `json:"until,omitzero"`
	Hints      []string       `json:"hints"`
	Workers    []Worker       `json:"workers,omitempty"`
	Iterations []loop.Spent   `json:"iterations"` // usage of each
	Plan       *loopplan.Plan `json:"plan"`
}

func (l *Loop) View() any {
	return LoopView{
		Head: headOf(l), State: l.State, Until: DelayOf(l.State).Until, Hints: append([]string{}, l.State.Hints...), Workers: WorkersOf(l.State),
		Iterations: append([]loop.Spent{}, l.Spent...), Plan: &l.Plan,
	}
}

// Actor returns the name under which a person talks to a run.
func Actor() string {
	return cmp.Or(os.Getenv("BOTHY_ACTOR"), os.Getenv("USER"), fmt.Sprint("uid-", os.Getuid()))
}

// CheckUndone refuses nothing: a loop that is completed has ended for good.
func (l *Loop) CheckUndone() error { return nil }

// CheckOpen refuses to talk to a loop that has ended for good.
func (l *Loop) CheckOpen() error {
	s := l.State
	if !s.Final() {
		return nil
	}
	err := spec.Errorf(spec.ErrConflict, "the run %s has ended: %s", l.Run.ID, s.Status)
	if s.Status == run.Limited {
		return err.WithHint("%s goes on, with more than is used", RaiseCommand(run.Loops, l.Run.ID, s.Reason))
	}
	if s.Status != run.Cancelled && len(s.Workers) == 0 {
		return err.WithHint("bothy loop rewind %s N goes on from an earlier iteration, bothy loop run begins another one", l.Run.ID)
	}
	return err.WithHint("bothy loop run begins another one")
}

// Sandboxes returns the IDs of the sandboxes that a loop works in.
func (l *Loop) Sandboxes() []string {
	ids := []string{l.Plan.Sandbox}
	for _, at := range l.State.Places {
		ids = append(ids, at.ID)
	}
	return ids
}

func (l *Loop) UsedSandboxes() []string { return l.Sandboxes() }

// NeededSandboxes returns the sandboxes of a loop, unless it is over for good.
func (l *Loop) NeededSandboxes() []string {
	if !l.Hosted && l.State.Final() && l.State.Status != run.Limited {
		return nil
	}
	return l.Sandboxes()
}

// cancelOrphan ends an orphaned loop, and lets others take its tasks.
func (l *Loop) cancelOrphan(h *run.Host, events []run.Event) (err error) {
	c := &loop.Loop{Plan: &l.Plan, Run: l.Run, Host: h, Queue: TaskQueueOf(l.Engine, &l.Plan, l.Run)}
	l.State, err = c.Stop(events, Actor())
	return err
}

// TidyUp removes the workers' sandboxes.
func (l *Loop) TidyUp(context.Context) (kept []string, err error) {
	return nil, runner.Unmake(l.Engine, Workplaces(l.State))
}

// RemoveOwned removes the workers' sandboxes, which would be orphans without the loop. If the loop was
// never ready, it removes all its sandboxes except those started since.
func (l *Loop) RemoveOwned(ctx context.Context) (kept []string, err error) {
	if l.State.Ready {
		return l.TidyUp(ctx)
	}
	return removeUntouched(l.Engine, l.Sandboxes()...)
}

func (l *Loop) IsMade() bool { return l.State.Ready }

func (l *Loop) IsUnfinished() bool { return false }

// RaiseLimits changes the limits in the plan, if the loop can be resumed within them.
func (l *Loop) RaiseLimits(limits *run.Limits) error {
	if l.State.Final() && l.State.Status != run.Limited {
		return l.CheckOpen()
	}
	l.Plan.Raise(limits)
	if err := l.Plan.Limits.Check(); err != nil {
		return err
	}
	end := loop.Reached(&l.Plan, l.State)
	if limits.Iterations != nil {
		end = cmp.Or(end, loop.Exhausted(&l.Plan, l.State))
	}
	if end != nil {
		return tooLow(l.Run.Kind, l.Run.ID, end.Reason, end.Detail)
	}
	return nil
}

// Workplace returns the sandbox of a loop to resume.
func (l *Loop) Workplace() (*spec.Sandbox, error) {
	sb, err := l.Engine.Find(l.Plan.Sandbox)
	if errors.Is(err, spec.ErrNotFound) {
		err = spec.Errorf(spec.ErrNotFound, "the sandbox %s of the run %s is not there", cmp.Or(l.State.Sandbox, l.Plan.Sandbox), l.Run.ID).
			WithHint("the work is gone with it: bothy loop rm %s", l.Run.ID)
	}
	return sb, err
}

// RaiseCommand returns the command that resumes a run stopped at a limit.
func RaiseCommand(kind, id, reason string) string {
	flag := map[string]string{"iterations": "--max-iterations N", "time": "--max-time TIME", "tokens": "--max-tokens N", "cost": "--max-cost USD"}[reason]
	return fmt.Sprintf("bothy %s resume %s %s", kind, id, flag)
}

// tooLow refuses limits that a run has already reached: it would end at once.
func tooLow(kind, id, reason, detail string) error {
	return spec.Errorf(spec.ErrUsage, "the run %s would end at once: %s", id, detail).
		WithHint("%s goes on, with more than is used", RaiseCommand(kind, id, reason))
}

// TaskPrompt is the default prompt of a loop that takes tasks.
const TaskPrompt = "Do what follows, and nothing else: what else there is to do in this project comes later."

// TaskQueueOf returns the source of a loop's tasks, or nil if it takes none.
func TaskQueueOf(e *engine.Engine, p *loopplan.Plan, r *run.Run) *taskqueue.Queue {
	if p.Tasks == nil {
		return nil
	}
	return &taskqueue.Queue{Store: book.Open(e.Store.Tasks(), p.Tasks.Project), Who: taskqueue.Holder(r.ID), Labels: p.Tasks.Labels}
}

// InHand returns the tasks that agents work on.
func (l *Loop) InHand() []string {
	hands := []string{}
	for _, w := range append([]*loop.State{l.State}, l.State.Workers...) {
		if w.Task != nil {
			hands = append(hands, w.Task.ID)
		}
	}
	return hands
}

// WorkedIn returns the agent that worked in an iteration, by the recorded events.
func (l *Loop) WorkedIn(iteration int) string {
	name := l.Plan.Agent
	for _, ev := range l.Events {
		var b loop.Begun
		if ev.Type == loop.Iteration && json.Unmarshal(ev.Data, &b) == nil && b.Iteration == iteration && b.Agent != "" {
			name = b.Agent
		}
	}
	return name
}
