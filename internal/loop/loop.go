// Package loop makes an agent work at one task again and again, each time with a fresh memory (or,
// optionally, with its last session). A loop ends when the agent says that it is done and checks out of
// its reach agree, when a limit is reached, or when the work stalls.
//
// The package decides and does nothing itself. The state of a loop is a fold over its events (see
// package run), the next action is a function of that state, and an interface runs agents and gates. So
// after a crash a loop continues with the first step without a result, and all of it can be tested
// without a sandbox.
package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/loop/taskqueue"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// Runner does the work of a loop. It keeps no state that a crash could lose.
type Runner interface {
	// Work runs the agent for a job, and ends all processes in the sandbox. An error means that the job
	// could not even begin, that ctx was done, or, as ErrCrashed, that the sandbox ended under it. Other
	// failures are in Work, with the agent's whole last message. With an error, Work still has the
	// usage.
	Work(ctx context.Context, job Job) (Work, error)
	// Begin copies the current files of the loop's sandbox into a seat's place, and returns their
	// checkpoint; 0 if the seat has no place of its own.
	Begin(ctx context.Context, seat Seat) (checkpoint int64, err error)
	// Ahead may prepare the next Work of a seat in the background, and stops that when ctx is done. If
	// it fails, Work fails for the same reason.
	Ahead(ctx context.Context, seat Seat)
	// Keep makes a checkpoint of a seat's files. If agents take turns, it also copies them into the
	// loop's sandbox.
	Keep(ctx context.Context, seat Seat, cause string) (checkpoint int64, err error)
	// Changes counts the files that differ between the checkpoint that a seat has just made and another
	// one; all files if that is 0. It returns ErrForgotten if the other one was removed.
	Changes(seat Seat, since, at int64) (int, error)
	// Restore restores files from a checkpoint.
	Restore(ctx context.Context, checkpoint int64) error
	// Beneath names files that were changed since a checkpoint was made and that no checkpoint has,
	// because they are below the kept files.
	Beneath(checkpoint int64) ([]string, error)
	// Judge asks the gates about a checkpoint. It compares protected files with the hashes of a
	// baseline; without a baseline it computes these hashes.
	Judge(ctx context.Context, checkpoint int64, baseline map[string]string) (gates []Gate, hashes map[string]string, err error)
	// PutBack restores protected files in a seat's place to a baseline, by their hashes, while no agent
	// works there. It may be interrupted and repeated.
	PutBack(ctx context.Context, seat Seat, baseline map[string]string) (Guard, error)
	// Review asks a reviewer about a checkpoint. Even with an error, Opinion has the usage.
	Review(ctx context.Context, job ReviewJob) (Opinion, error)
	// Gone reports whether a person has removed the seat's own place.
	Gone(seat Seat) bool
	// Remake makes a new place for a seat whose place is gone. It calls noted before the new place
	// exists. It removes earlier noted places of the seat that are not used.
	Remake(ctx context.Context, seat Seat, before []Place, noted func(Place) error) (Place, error)
}

// Job is the agent's task in an iteration.
type Job struct {
	Seat
	Prompt string
	Model  string        // empty: the agent's own choice
	Limit  time.Duration // working time limit; 0: none
	Idle   time.Duration // limit of the time without activity; 0: none
	Budget spec.Budget   // limits of model usage in its sandbox, over the sandbox's lifetime
	Rest   spec.Budget   // remaining model usage for all agents together; zero: no limit
	// Session is the session to continue; empty: start a new one.
	Session string
	// Output receives all output of the agent.
	Output *run.Output
}

// Loop carries one loop on.
type Loop struct {
	Plan   *loopplan.Plan
	Run    *run.Run
	Host   *run.Host
	Runner Runner                  // a [TeamRunner] if the plan has several workers
	Queue  *taskqueue.Queue        // the source of its tasks; nil if it takes none
	Tell   func(run.Event, *State) // called after each event; may be nil

	state   *State
	kept    int       // number of recorded events
	renewed time.Time // last renewal of the task's claim
}

// Carry carries the loop on from its last event until it ends, and returns its state then. If ctx is
// done, the loop is interrupted by the signal in the cause ([spec.Exited]). An error means that an event
// could not be kept: the state on disk is then the one before that event.
func (l *Loop) Carry(ctx context.Context, events []run.Event) (*State, error) {
	var err error
	if l.state, err = Fold(events); err != nil {
		return nil, err
	}
	if l.Plan.Parallel() {
		return newTeam(l).carryTeam(ctx)
	}
	return l.state, l.Run.Carry(ctx, run.Work{
		Begin:   l.beginRun,
		Running: func() bool { return l.state.Status == run.Running },
		Hear:    l.hearMessage,
		Step:    func(ctx context.Context) error { return l.carryOut(ctx, Next(l.Plan, l.state, time.Now())) },
		End:     func(actor string, r run.Result) error { return l.endRun(actor, endEvent(r)) },
	})
}

// endEvent returns the event data for a result.
func endEvent(r run.Result) End {
	return End{Status: r.Status, Reason: r.Reason, Detail: r.Detail, Signal: r.Signal}
}

// Stop ends a loop for good that no process carries on, after its last event. Its tasks become free for
// others.
func (l *Loop) Stop(events []run.Event, actor string) (*State, error) {
	var err error
	if l.state, err = Fold(events); err != nil {
		return nil, err
	}
	for _, s := range l.state.allStates() {
		if l.Queue != nil && s.Task != nil {
			_ = l.Queue.PutBack(context.Background(), s.Task.ID, "the run "+l.Run.ID+" was stopped") // otherwise its lease expires
		}
	}
	return l.state, l.appendEvent(run.Ended, actor, endEvent(run.Stopped()))
}

func (l *Loop) beginRun() error {
	if err := l.Run.Forget(l.Host.Since(), outdated(l.state)...); err != nil {
		return err
	}
	return l.appendEvent(run.Began, run.ActorHost, nil)
}

// outdated returns the kinds of messages that were meant for an earlier carrier if they were left before
// this one. A loop that had reached a limit was over, so a stop was meant for that end.
func outdated(s *State) []string {
	if s.Status == run.Limited {
		return []string{run.Pause, run.Stop}
	}
	return []string{run.Pause}
}

// appendEvent keeps an event, and reports it.
func (l *Loop) appendEvent(kind, actor string, data any) error {
	ev, err := l.Host.Append(kind, actor, data)
	if err == nil {
		l.kept++
		err = l.state.Add(ev)
	}
	if err == nil && l.Tell != nil {
		l.Tell(ev, l.state)
	}
	return err
}

// endRun records that the loop is not carried on. From here on others may take the current tasks, with a
// note if the loop does not return to them by itself.
func (l *Loop) endRun(actor string, e End) error {
	note := ""
	if e.Status != run.Waiting && e.Status != run.Interrupted {
		note = noteOf(l.Run.ID, fmt.Sprintf("the loop ended: %s (%s)", e.Status, e.Reason))
	}
	for _, s := range l.state.allStates() {
		if l.Queue != nil && s.Task != nil && s.held {
			_ = l.Queue.PutBack(context.Background(), s.Task.ID, note) // otherwise its lease expires
		}
	}
	return l.appendEvent(run.Ended, actor, e)
}

func (l *Loop) keepEvent(kind string, data any) error {
	return run.Unkept(l.appendEvent(kind, run.ActorHost, data))
}

// hearMessage handles a message of a person. A pause waits for the end of an iteration.
func (l *Loop) hearMessage(m run.Message) (taken bool, err error) {
	if m.Kind == run.Pause {
		if l.inIteration() {
			return false, nil
		}
		return true, l.endRun(m.Actor, End{Status: run.Waiting, Reason: "paused"})
	}
	return true, l.adviseLoop(m)
}

// adviseLoop records hints of a person, or their withdrawal.
func (l *Loop) adviseLoop(m run.Message) error {
	switch m.Kind {
	case run.Hint:
		return l.appendEvent(Hinted, m.Actor, Advice{m.ID, m.Text})
	case run.Clear:
		return l.appendEvent(Cleared, m.Actor, nil)
	}
	return nil
}

// inIteration reports whether an iteration is under way.
func (l *Loop) inIteration() bool {
	s := l.state
	return s.step == Kept || s.step == Worked && s.Work.Verdict != spec.VerdictLimit
}

func (l *Loop) carryOut(ctx context.Context, step Step) error {
	switch {
	case step.Baseline:
		return l.judgeBaseline(ctx)
	case step.Restore:
		return l.restoreFiles(ctx)
	case step.Guard:
		return l.holding(ctx, l.restoreProtected)
	case step.Take:
		return l.takeTask(ctx)
	case step.Close:
		return l.closeTask(ctx)
	case step.PutBack != "":
		return l.putBack(ctx, step.PutBack)
	case step.End != nil:
		return run.Unkept(l.endRun(run.ActorHost, *step.End))
	case step.Judge:
		l.prepareNext(ctx) // it continues after the step
	}
	return l.holding(ctx, func(ctx context.Context) error {
		switch {
		case step.Iterate > 0:
			return l.runIteration(ctx, step.Iterate)
		case step.Keep:
			return l.keepFiles(ctx)
		case step.Confirm:
			return l.confirmFiles(ctx)
		case step.Judge:
			return l.judgeFiles(ctx)
		case step.Review != nil:
			return l.askReviewer(ctx, step.Review)
		}
		return run.Wait(ctx, step.Wait)
	})
}

// AheadFor is how long a preparation is as good as a new one.
const AheadFor = time.Minute

// prepareNext prepares the next iteration, if one can be foreseen, and soon.
func (l *Loop) prepareNext(ctx context.Context) {
	if l.state.LastVerdict().gateTime() >= AheadFor {
		return
	}
	if n := foreseen(l.Plan, l.state, time.Now()); n > 0 {
		l.Runner.Ahead(ctx, seatOf(l.Plan, n))
	}
}

// judgeBaseline records the gates' verdict on the current files, before any work.
func (l *Loop) judgeBaseline(ctx context.Context) error {
	n, err := l.Runner.Keep(ctx, Seat{}, "run "+l.Run.ID+" begins")
	if err != nil {
		return err
	}
	gates, hashes, err := l.Runner.Judge(ctx, n, nil)
	if err != nil {
		return err
	}
	return l.keepEvent(Baseline, Verdict{Checkpoint: n, Gates: gates, Protected: hashes})
}

// restoreProtected restores protected files, and makes a checkpoint: the agent's next work is compared
// with that.
func (l *Loop) restoreProtected(ctx context.Context) error {
	g, err := l.guardFiles(ctx, Seat{}, l.state.Baseline.Protected, "run "+l.Run.ID)
	if err != nil {
		return err
	}
	return l.keepEvent(Guarded, g)
}

func (l *Loop) guardFiles(ctx context.Context, seat Seat, baseline map[string]string, at string) (Guard, error) {
	g, err := l.Runner.PutBack(ctx, seat, baseline)
	if err == nil && len(g.Paths) > 0 {
		g.Checkpoint, err = l.Runner.Keep(ctx, seat, at+": protected files are restored")
	}
	return g, err
}

// maxMessage is the size up to which the end of a message is kept, in bytes.
const maxMessage = 8 << 10

func (l *Loop) runIteration(ctx context.Context, n int) error {
	seat, model := seatOf(l.Plan, n), l.Plan.ModelOf(n)
	if l.Runner.Gone(seat) {
		return l.remakePlace(ctx, seat)
	}
	if !l.state.hasBegun(n) { // otherwise it continues with its own files
		if _, err := l.Runner.Begin(ctx, seat); err != nil {
			return l.handleMissing(ctx, seat, err)
		}
	}
	prompt, told := Prompt(l.Plan, l.state, n)
	session := sessionOf(l.Plan, l.state, n)
	if err := l.keepEvent(Iteration, Begun{Iteration: n, Hints: told, Agent: seat.Agent, Model: model, Session: session}); err != nil {
		return err
	}
	job := Job{
		Seat: seat, Prompt: prompt, Model: model, Session: session, Limit: workLimit(l.Plan, l.state, time.Now()), Idle: time.Duration(l.Plan.Limits.Idle),
		Budget: budgetOf(l.Plan, l.state), Rest: budgetLeft(l.Plan, l.state),
	}
	w, err := l.runAgent(ctx, job, n)
	if err == nil {
		return l.keepEvent(Worked, w)
	}
	if sandboxCrashed(ctx, &w) {
		return l.keepEvent(Cut, w)
	}
	if w.hasUsage() {
		if kerr := l.keepEvent(Cut, w); kerr != nil {
			return kerr
		}
	}
	return l.handleMissing(ctx, seat, err)
}

// handleMissing handles an error in a seat's place. If a person removed the place, it makes a new one.
// Files of the old place that are in no checkpoint are lost: the iteration is repeated.
func (l *Loop) handleMissing(ctx context.Context, seat Seat, err error) error {
	if err == nil || ctx.Err() != nil || !l.Runner.Gone(seat) {
		return err
	}
	return l.remakePlace(ctx, seat)
}

// remakePlace makes a new place, and records it.
func (l *Loop) remakePlace(ctx context.Context, seat Seat) error {
	p, err := l.Runner.Remake(ctx, seat, l.state.Places, func(p Place) error {
		return l.keepEvent(Placing, Made{Sandbox: l.state.Sandbox, Places: []Place{p}})
	})
	if err != nil {
		return err
	}
	return l.keepEvent(Replaced, p)
}

// workLimit returns how long an agent may work.
func workLimit(p *loopplan.Plan, s *State, now time.Time) time.Duration {
	limit := time.Duration(p.Limits.Iteration)
	if rest := timeLeft(p.Limits.Time, s.Took(s.Status, now)); rest != 0 && (limit == 0 || rest < limit) {
		limit = max(rest, time.Millisecond)
	}
	return limit
}

// runAgent runs an agent, and evaluates its message. With an error it only returns the usage.
func (l *Loop) runAgent(ctx context.Context, job Job, n int) (w Work, err error) {
	began := time.Now()
	if job.Output, err = l.Run.Output(n); err != nil {
		return w, err
	}
	w, err = l.Runner.Work(ctx, job)
	unkept := job.Output.Close()
	if err == nil {
		err = ctx.Err() // interrupted, even if it has a result
	}
	w.Iteration, w.Worker, w.Seconds = n, job.Worker, time.Since(began).Seconds()
	if err != nil {
		w = Work{By: w.By, Iteration: n, Verdict: spec.VerdictFailed, Session: w.Session, Calls: w.Calls, Tokens: w.Tokens, USD: w.USD, Said: w.Said, Seen: w.Seen, Unlisted: w.Unlisted, Seconds: w.Seconds}
		if errors.Is(err, ErrCrashed) {
			w.Crashed = run.Tail(err.Error(), maxMessage)
		}
		return w, err
	}
	w.Done, w.Abort = promised(w.Message, l.Plan.Promise), promised(w.Message, l.Plan.Abort)
	w.Asks = !w.Done && !w.Abort && asksPerson(w.Message)
	w.Message, w.Error = run.Tail(w.Message, maxMessage), run.Tail(w.Error, maxMessage)
	if unkept != nil { // the work still counts
		w.Unprinted = unkept.Error()
	}
	return w, nil
}

// hasUsage reports whether models or tools were asked.
func (w Work) hasUsage() bool { return w.Tokens > 0 || w.USD > 0 || w.Calls > 0 }

// hasBegun reports whether an iteration has begun, and has no result.
func (s *State) hasBegun(n int) bool {
	return s.Iteration == n && !s.lost && (s.step == Iteration || s.step == Worked)
}

func (l *Loop) keepFiles(ctx context.Context) error {
	s := l.state
	seat := Seat{Agent: s.Agent}
	k, err := l.keepDone(ctx, seat, s, "run "+l.Run.ID+" iteration "+strconv.Itoa(s.Iteration))
	if err != nil {
		return l.handleMissing(ctx, seat, err)
	}
	return l.keepEvent(Kept, k)
}

// ErrForgotten says that a checkpoint does not exist any more: a person removed it.
var ErrForgotten = errors.New("the checkpoint was removed")

// changesSince counts the files that differ from the last checkpoint. If a person removed that
// checkpoint, the count is not exact: it is the number of changes since the start, or of all files.
func (l *Loop) changesSince(seat Seat, s *State, at int64) (n int, exact bool, err error) {
	for _, from := range slices.Compact([]int64{s.checked, s.startPoint()}) {
		if n, err = l.Runner.Changes(seat, from, at); !errors.Is(err, ErrForgotten) {
			return n, from == s.checked, err
		}
	}
	n, err = l.Runner.Changes(seat, 0, at)
	return n, false, err
}

// keepDone makes a checkpoint of an iteration. If the agent says that it is done, it counts the changes
// of all iterations: changes that one iteration made and another undid do not count. If the checkpoint
// before them was removed, each iteration that has changed a file counts.
func (l *Loop) keepDone(ctx context.Context, seat Seat, s *State, cause string) (k Keep, err error) {
	k = Keep{Iteration: s.Iteration}
	if k.Checkpoint, err = l.Runner.Keep(ctx, seat, cause); err != nil {
		return k, err
	}
	if k.Changes, _, err = l.changesSince(seat, s, k.Checkpoint); err != nil {
		return k, err
	}
	if from := s.startPoint(); s.claims && (s.changed || k.Changes > 0) && from != s.checked {
		n, err := l.Runner.Changes(seat, from, k.Checkpoint)
		if errors.Is(err, ErrForgotten) {
			return k, nil
		}
		k.Whole = &n
		return k, err
	}
	return k, nil
}

// confirmFiles checks whether the loop's sandbox has the files of the iteration's checkpoint, wherever
// that was made. If not, the current files must be judged.
func (l *Loop) confirmFiles(ctx context.Context) error {
	s := l.state
	kind, k, err := l.compareFiles(ctx, Seat{}, s, "run "+l.Run.ID+" goes on")
	if err != nil {
		return err
	}
	return l.keepEvent(kind, k)
}

// compareFiles compares a place with its checkpoint, and returns the event for the result. If the checkpoint
// was removed, the files must be judged.
func (l *Loop) compareFiles(ctx context.Context, seat Seat, s *State, cause string) (kind string, k Keep, err error) {
	k = Keep{Iteration: s.Iteration, Again: true}
	exact := false
	beneath, err := l.Runner.Beneath(s.checked)
	if err == nil {
		k.Checkpoint, err = l.Runner.Keep(ctx, seat, cause)
	}
	if err == nil {
		k.Changes, exact, err = l.changesSince(seat, s, k.Checkpoint)
	}
	if !exact || k.Changes > 0 || len(beneath) > 0 {
		return Kept, k, err
	}
	return Confirmed, k, err
}

func (l *Loop) judgeFiles(ctx context.Context) error {
	s := l.state
	gates, _, err := l.Runner.Judge(ctx, s.checked, s.Baseline.Protected)
	if err != nil {
		return err
	}
	return l.keepEvent(Judged, Verdict{Iteration: s.Iteration, Checkpoint: s.checked, Gates: gates})
}
