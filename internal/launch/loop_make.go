package launch

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/notify"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runner"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/spec"
)

// StartLoop makes a loop and its sandboxes, and carries it on to its end.
func (l *Launcher) StartLoop(ctx context.Context, req LoopRequest) (*Ended, error) {
	pl, err := l.PlanLoop(req)
	if err != nil {
		return nil, err
	}
	l.noteAll(pl.Notes)
	sb, r, h, err := l.makeLoop(ctx, pl)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	others, ready, err := l.makePlaces(ctx, pl, sb, r, h)
	if err != nil {
		return nil, err
	}
	l.warnBeside(r.ID, sb)
	l.Note("run %s in sandbox %s; from another terminal: bothy loop watch|status|log|hint|pause|stop %s", r.ID, sb.Name, r.ID)
	works := runner.NewLoop(l, l.Engine, l.snapshots(), sb, pl.Agents[0], &pl.Plan, others, r.Originals())
	return l.carryLoop(ctx, &pl.Plan, r, h, works, []run.Event{ready})
}

// makeLoop makes the run, and then its sandbox. If it fails, nothing is left.
func (l *Launcher) makeLoop(ctx context.Context, pl *LoopPlan) (sb *spec.Sandbox, r *run.Run, h *run.Host, err error) {
	sb, err = l.makeSandbox(ctx, run.Loops, pl.Sandbox, func(sb *spec.Sandbox) (err error) {
		sb.Budget = pl.Plan.Budget()
		if err = pl.checkSandbox(sb); err == nil {
			err = l.checkTasks(ctx, pl)
		}
		if err == nil {
			err = l.houseReviewers(ctx, pl.Reviewers, sb)
		}
		if err == nil {
			err = l.checkReady(ctx, pl, sb)
		}
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		if r, err = run.Named(pl.nameSource(), time.Now(), func(id string) (*run.Run, error) { return run.Create(l.Engine.Store.Runs(), id, &pl.Plan) }); err == nil {
			sb.Loop = r.ID
			h, _, err = r.Host()
		}
		if err == nil {
			err = pl.leaveHints(r)
		}
		return err
	})
	if err != nil && r != nil { // nothing could be resumed
		if h != nil {
			h.Close() // a held run could not be removed
		}
		_ = r.Remove()
	}
	return sb, r, h, err
}

// makePlaces makes the sandboxes of a loop's other agents and its workers, and records that the loop is ready.
// If it fails, it removes the run and all its sandboxes.
func (l *Launcher) makePlaces(ctx context.Context, pl *LoopPlan, sb *spec.Sandbox, r *run.Run, h *run.Host) (others *runner.Places, ready run.Event, err error) {
	made := loop.Made{Sandbox: sb.Name}
	noted := func(at loop.Place) error {
		_, err := h.Append(loop.Placing, run.ActorHost, loop.Made{Sandbox: sb.Name, Places: []loop.Place{at}})
		return err
	}
	if made.Places, err = l.makeGuests(ctx, pl, sb, noted); err == nil {
		var hired []loop.Place
		hired, err = l.makeWorkers(ctx, &pl.Plan, sb, noted)
		made.Places = append(made.Places, hired...)
	}
	if err == nil {
		others, err = placesOf(l.Engine, &pl.Plan, made.Places)
	}
	if err == nil {
		ready, err = h.Append(run.Ready, run.ActorHost, made)
	}
	if err != nil {
		h.Close()
		err = errors.Join(err, runner.Unmake(l.Engine, append(made.Places, loop.Place{ID: sb.ID})), r.Remove())
	}
	return others, ready, err
}

// nameSource returns the text to derive the run's ID from.
func (pl *LoopPlan) nameSource() string {
	if pl.Plan.Prompt == runstate.TaskPrompt {
		return "tasks of " + filepath.Base(pl.Plan.Directory)
	}
	return pl.Plan.Prompt
}

// leaveHints leaves messages for the first iteration in addition to the prompt.
func (pl *LoopPlan) leaveHints(r *run.Run) error {
	for _, text := range pl.Hints {
		if err := r.Leave(run.Message{Kind: run.Hint, Text: text, Actor: runstate.Actor()}); err != nil {
			return err
		}
	}
	return nil
}

// carryLoop runs a loop that this process holds.
func (l *Launcher) carryLoop(ctx context.Context, p *loopplan.Plan, r *run.Run, h *run.Host, works *runner.Loop, events []run.Event) (*Ended, error) {
	n := notify.Notice{Run: r.ID, Kind: r.Kind, Directory: p.Directory}
	t := &herald{launcher: l, notice: n, before: events}
	c := &loop.Loop{Plan: p, Run: r, Host: h, Runner: works, Queue: runstate.TaskQueueOf(l.Engine, p, r)}
	c.Tell = func(ev run.Event, s *loop.State) {
		l.Host.ShowLoop(p, ev, s)
		t.handleEvent(ctx, ev, s)
	}
	if p.Parallel() {
		c.Runner = runner.NewTeam(works)
	}
	s, err := c.Carry(ctx, events)
	t.waitForNotices()
	works.Close(ctx)
	if err != nil {
		return nil, err
	}
	if s.Final() {
		if err := runner.Unmake(l.Engine, runstate.Workplaces(s)); err != nil {
			l.Note("not all sandboxes of workers were removed: %v", err)
		}
	}
	end := LoopEnd{Run: r, Plan: p, State: s, Sandbox: works.Sandbox}
	if _, err := l.Engine.Find(p.Sandbox); errors.Is(err, spec.ErrNotFound) {
		end.Sandbox = nil
	}
	l.Host.EndLoop(end)
	return l.finish(ctx, r, h, runstate.NoticeOfEnd(n, &s.Result), s.ExitCode()), nil
}
