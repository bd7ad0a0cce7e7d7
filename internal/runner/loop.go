package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/headless"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/reconfigure"
	"github.com/bothy-dev/bothy/internal/records"
	"github.com/bothy-dev/bothy/internal/review/quote"
	"github.com/bothy-dev/bothy/internal/snapshot"
	"github.com/bothy-dev/bothy/spec"
)

// Loop works in the sandbox of a loop, and judges in copies of it.
type Loop struct {
	base
	Sandbox *spec.Sandbox
	agent   *spec.Agent
	plan    *loopplan.Plan
	places  *Places
	ahead   *early // nil: no sandbox was started ahead

	originals string // the directory for copies of protected files; empty: none
}

var _ loop.Runner = (*Loop)(nil)

// NewLoop returns the runner of a loop in a sandbox. The agent is nil if none will work. elsewhere
// may be nil: no agent works in another place. originals is the directory for copies of protected
// files.
func NewLoop(h Host, e *engine.Engine, s *snapshot.Snapshots, sb *spec.Sandbox, of *spec.Agent, p *loopplan.Plan, elsewhere *Places, originals string) *Loop {
	return &Loop{base: base{host: h, engine: e, snapshots: s}, Sandbox: sb, agent: of, plan: p, places: elsewhere, originals: originals}
}

// Close waits for the background work. The loop's work must be over.
func (s *Loop) Close(ctx context.Context) {
	s.stopIdle(ctx)
	s.going.Wait()
}

// Work runs the agent, and then stops the sandbox: servers that the agent left running would hold ports,
// and write while the files are judged.
func (s *Loop) Work(ctx context.Context, job loop.Job) (w loop.Work, err error) {
	at, err := s.placeOf(job.Seat)
	if err != nil {
		return w, err
	}
	q, err := prepareRequest(at.Agent, turn{prompt: job.Prompt, model: job.Model, session: job.Session, limit: job.Limit})
	if err != nil { // the caller has checked that the agent can work
		return w, err
	}
	if err := s.emptySandbox(ctx, at.Sandbox); err != nil {
		return w, err
	}
	before, err := records.Bill(ctx, s.engine.Keepers(), at.Sandbox)
	if err == nil {
		err = s.allowBudget(ctx, at, before, job)
	}
	if err == nil {
		err = s.host.SetUp(ctx, at.Sandbox)
	}
	if err != nil {
		return w, err
	}
	began := time.Now()
	defer func() { // also after an interruption
		after, berr := records.Bill(context.WithoutCancel(ctx), s.engine.Keepers(), at.Sandbox)
		if berr == nil {
			if job.Session != "" && after.Since(before).Answers > 0 {
				w.Tokens, w.USD, w.Said = 0, 0, nil // its figures may be those of the whole session
			}
			meterWork(&w, before, after, began)
		}
		err = errors.Join(err, berr)
	}()
	a, err := s.askWatched(ctx, q, at.Sandbox, job)
	stopped := s.engine.Stop(context.WithoutCancel(ctx), at.Sandbox, Grace)
	if short := (*headless.CutShort)(nil); errors.As(err, &short) && stopped == nil && ctx.Err() == nil && s.hasCrashed(at.Sandbox, short) {
		return a.agentUsage(), fmt.Errorf("%w: %w", loop.ErrCrashed, short)
	}
	if err = errors.Join(a.endEarly(err), stopped); err != nil {
		return a.agentUsage(), err
	}
	return a.judgeWork(), nil
}

// askWatched runs the agent, and stops it when it is idle if the job limits that.
func (s *Loop) askWatched(ctx context.Context, q *request, sb *spec.Sandbox, job loop.Job) (*report, error) {
	out := job.Output
	if job.Idle <= 0 {
		return q.askAgent(ctx, s.sessionIn(sb), out.Stdout, out.Stderr)
	}
	p := &idleWatch{limit: job.Idle, look: func(ctx context.Context) (activity, error) { return activityOf(ctx, s.engine, sb) }}
	ctx, giveUp := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { p.watchAgent(ctx, giveUp) })
	a, err := q.askAgent(ctx, s.sessionIn(sb), io.MultiWriter(out.Stdout, p), io.MultiWriter(out.Stderr, p))
	giveUp(nil)
	watching.Wait()
	return a, err
}

// hasCrashed reports whether a command was cut short because the sandbox crashed or was killed. A
// sandbox that was removed, or stopped for its behaviour or by a person, did not crash.
func (s *Loop) hasCrashed(sb *spec.Sandbox, why *headless.CutShort) bool {
	if !errors.Is(why, spec.ErrSandbox) && !errors.Is(why, spec.ErrMayHaveRun) {
		return false
	}
	_, err := s.engine.Find(sb.ID)
	return err == nil && s.engine.Status(sb).Crashed
}

// Keep makes a checkpoint.
func (s *Loop) Keep(ctx context.Context, seat loop.Seat, cause string) (int64, error) {
	p, err := s.makeCheckpoint(ctx, seat, cause)
	return p.Number, err
}

// Changes counts the files that a seat has changed since a checkpoint.
func (s *Loop) Changes(seat loop.Seat, since, at int64) (int, error) {
	to, err := s.checkpoint(at)
	if err != nil {
		return 0, err
	}
	from := checkpoint.Point{}
	if since > 0 {
		if from, err = s.checkpoint(since); errors.Is(err, spec.ErrNotFound) {
			s.host.Note("checkpoint %d of %s was removed: the changes since cannot be counted", since, s.Sandbox.Name)
			return 0, loop.ErrForgotten
		}
	}
	if err != nil {
		return 0, err
	}
	by, err := s.placeOf(seat)
	if err != nil {
		return 0, err
	}
	list, err := s.snapshots.WorkChanges(s.Sandbox, by.Sandbox, from, to)
	return len(list), err
}

// Restore puts the sandbox's files back.
func (s *Loop) Restore(ctx context.Context, number int64) error {
	s.stopIdle(ctx) // restoring a stopped sandbox is faster
	p, err := s.checkpoint(number)
	if err != nil {
		return err
	}
	r, err := s.snapshots.Restore(ctx, s.Sandbox, p, snapshot.RestoreOptions{})
	if r.Before != nil {
		s.host.Note("what there was is checkpoint %s", r.Before.Name)
	}
	for _, path := range r.Skipped {
		s.host.Note("not put back: %s", quote.Path(path))
	}
	return err
}

// Beneath names the host's files that the sandbox sees, that no checkpoint holds, and that changed since
// this one.
func (s *Loop) Beneath(number int64) ([]string, error) {
	p, err := s.checkpoint(number)
	if errors.Is(err, spec.ErrNotFound) { // a person removed it
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return s.snapshots.ChangedBeneath(s.Sandbox, p.CreatedAt)
}

// checkpoint finds a checkpoint of the loop's sandbox.
func (s *Loop) checkpoint(number int64) (checkpoint.Point, error) {
	return s.snapshots.Checkpoints(s.Sandbox).Find(strconv.FormatInt(number, 10))
}

// lowerBudget sets the gateway's budget, unless the current one is smaller: a person may have set that.
func (s *Loop) lowerBudget(ctx context.Context, sb *spec.Sandbox, b spec.Budget) error {
	now, err := s.engine.Find(sb.ID)
	if err != nil {
		return err
	}
	has := now.Budget
	if has.Tokens > 0 && (b.Tokens == 0 || has.Tokens < b.Tokens) {
		b.Tokens = has.Tokens
	}
	if has.USD > 0 && (b.USD == 0 || has.USD < b.USD) {
		b.USD = has.USD
	}
	if b == has {
		return nil
	}
	return reconfigure.Budget(ctx, s.engine, sb, b)
}
