package launch

import (
	"context"
	"errors"
	"strings"

	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/provision"
	"github.com/bothy-dev/bothy/internal/reconfigure"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runner"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/spec"
)

// Resume carries a run on that no process holds, within raised limits if there are any. A run that is over is
// only tidied.
func (l *Launcher) Resume(ctx context.Context, of runstate.Run, raised *run.Limits) (*Ended, error) {
	r := of.Recorded()
	h, events, err := r.Run.Host()
	if err != nil {
		return nil, err
	}
	defer h.Close()
	if r.Run.Gone() {
		return nil, runstate.FilesGone(of)
	}
	if err := r.Run.Away(); err != nil {
		return nil, err
	}
	if err := of.Fold(events); err != nil {
		return nil, err
	}
	r.Hosted = false // no other process holds it
	if raised != nil {
		if err := of.RaiseLimits(raised); err != nil {
			return nil, err
		}
	}
	if !of.CanGoOn() {
		if left := of.LeftBehind(); len(left) > 0 || of.IsUnfinished() {
			return l.tidyRun(ctx, of, h, left)
		}
		if err := of.CheckOpen(); err != nil {
			return nil, err
		}
	}
	if !of.IsMade() {
		return nil, unmake(ctx, of, h)
	}
	if f, ok := of.(*runstate.Flow); ok {
		return l.resumeFlow(ctx, f, h, events, raised)
	}
	return l.resumeLoop(ctx, of.(*runstate.Loop), h, events, raised)
}

// tidyRun finishes the rest of a run that is over, such as removing sandboxes.
func (l *Launcher) tidyRun(ctx context.Context, of runstate.Run, h *run.Host, left []string) (*Ended, error) {
	if _, err := of.TidyUp(ctx); err != nil {
		return nil, err
	}
	r := of.Recorded()
	if len(left) > 0 {
		l.Note("removed what the %s had left: %s", r.Run.Kind, strings.Join(left, ", "))
	}
	end := l.finish(ctx, r.Run, h, runstate.NoticeOfEnd(r.Notice(), of.Result()), of.Progress().ExitCode())
	if f, ok := of.(*runstate.Flow); ok {
		return end, l.writeDraft(end, &f.Plan, f.State)
	}
	return end, nil
}

// unmake removes a run that was interrupted while its sandboxes were created. Some may be missing or
// lack their secrets, and no work was done yet. The error says so.
func unmake(ctx context.Context, of runstate.Run, h *run.Host) error {
	kept, err := runstate.Erase(ctx, of, h)
	if err != nil {
		return err
	}
	r := of.Recorded().Run
	hint := "begin anew: bothy " + r.Kind + " run"
	if len(kept) > 0 {
		hint = "except sandboxes that were started since: bothy rm " + strings.Join(kept, " ") + "; " + hint
	}
	return spec.Errorf(spec.ErrConflict, "the run %s was cut short while its sandboxes were made: nothing was done, and all that there was of it is removed", r.ID).
		WithHint("%s", hint)
}

// resumeLoop carries on a loop that this process holds.
func (l *Launcher) resumeLoop(ctx context.Context, of *runstate.Loop, h *run.Host, events []run.Event, raised *run.Limits) (*Ended, error) {
	sb, err := of.Workplace()
	if err != nil {
		return nil, err
	}
	worker, err := runner.Worker(l.Engine.Agents, of.Plan.Agent)
	if err != nil {
		return nil, err
	}
	reviewers, err := loopReviewers(l.Engine.Agents, &of.Plan)
	if err != nil {
		return nil, err
	}
	places, err := placesOf(l.Engine, &of.Plan, of.State.Places)
	if err != nil {
		return nil, err
	}
	if raised != nil {
		ev, err := l.raiseLoop(ctx, of, h, sb, reviewers, raised)
		if err != nil {
			return nil, err
		}
		events = append(events, ev)
	}
	works := runner.NewLoop(l, l.Engine, l.snapshots(), sb, worker, &of.Plan, places, of.Run.Originals())
	return l.carryLoop(ctx, &of.Plan, of.Run, h, works, events)
}

// raiseLoop records the plan's new limits, if they would limit its agents and reviewers.
func (l *Launcher) raiseLoop(ctx context.Context, of *runstate.Loop, h *run.Host, sb *spec.Sandbox, reviewers []*spec.Agent, limits *run.Limits) (run.Event, error) {
	agents, err := capable(l.Engine.Agents, &of.Plan)
	var w provision.Metering
	if err == nil {
		w, err = provision.MeteringIn(l.Engine, sb)
	}
	if err == nil {
		var notes []string
		notes, err = checkLoopBudget(&of.Plan, w, agents, reviewers)
		l.noteAll(notes)
	}
	if err != nil {
		return run.Event{}, err
	}
	ev, err := l.raiseLimits(ctx, h, limits, of.Sandboxes())
	if err == nil {
		l.Host.ShowLoop(&of.Plan, ev, of.State)
	}
	return ev, err
}

// resumeFlow carries on a flow that this process holds.
func (l *Launcher) resumeFlow(ctx context.Context, of *runstate.Flow, h *run.Host, events []run.Event, raised *run.Limits) (*Ended, error) {
	if !of.State.Ready {
		ready, err := h.Append(run.Ready, run.ActorHost, flow.Made{})
		if err != nil {
			return nil, err
		}
		events = append(events, ready)
	}
	agents, err := flowAgents(l.Engine.Agents, &of.Plan)
	if err != nil {
		return nil, err
	}
	made, err := of.FindSandboxes(ctx, events)
	if err != nil {
		return nil, err
	}
	if raised != nil {
		ev, err := l.raiseFlow(ctx, of, h, made, agents, raised)
		if err != nil {
			return nil, err
		}
		events = append(events, ev)
	}
	return l.carryFlow(ctx, &of.Plan, of.Run, h, runner.NewFlow(l, l.Engine, l.snapshots(), made, agents), events)
}

// raiseFlow records the plan's new limits, if they would limit its agents.
func (l *Launcher) raiseFlow(ctx context.Context, of *runstate.Flow, h *run.Host, made map[string]*spec.Sandbox, agents map[string]*spec.Agent, limits *run.Limits) (run.Event, error) {
	var ids []string
	b := bounds{budget: of.Plan.Budget()}
	for _, room := range of.Plan.Rooms() {
		sb := made[room.Name]
		if sb == nil {
			continue
		}
		ids = append(ids, sb.ID)
		w, err := provision.MeteringIn(l.Engine, sb)
		if of := agents[room.Agent]; err == nil && of != nil {
			err = b.checkAgent(of, w)
		}
		if err != nil {
			return run.Event{}, err
		}
	}
	l.noteAll(b.notes)
	ev, err := l.raiseLimits(ctx, h, limits, ids)
	if err == nil {
		l.Host.ShowFlow(ev, of.State)
	}
	return ev, err
}

// raiseLimits records new limits, and sets them as the budgets of the run's sandboxes. They replace a
// sandbox's own budget, too, because the latest setting counts. The run may still hold an agent to
// less if less is left.
func (l *Launcher) raiseLimits(ctx context.Context, h *run.Host, limits *run.Limits, sandboxes []string) (run.Event, error) {
	for _, id := range sandboxes {
		sb, err := l.Engine.Find(id)
		if errors.Is(err, spec.ErrNotFound) { // it will be recreated, or reported as missing
			continue
		}
		if err != nil {
			return run.Event{}, err
		}
		b := sb.Budget
		limits.Set(new(spec.Duration), &b.Tokens, &b.USD)
		if b == sb.Budget {
			continue
		}
		if err := reconfigure.Budget(ctx, l.Engine, sb, b); err != nil {
			return run.Event{}, err
		}
	}
	return h.Append(run.Raised, runstate.Actor(), limits)
}
