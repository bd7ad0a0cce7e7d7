package runs

import (
	"cmp"
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/provision"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runner"
	"github.com/bothy-dev/bothy/spec"
)

func flowResumeCommand(a *app) *cobra.Command {
	var more raiseFlags
	c := &cobra.Command{
		Use: "resume [RUN]", Short: "Carry a flow on that was cut short, waited or failed; without RUN the only one",
		Long: "Goes on with the first step that has no result. A step is passed over if it was\nvalidated, and neither what it made nor what it was made from has changed since. One that\nhas come to a limit goes on with another: --max-time, --max-tokens, --max-cost.",
		Args: cmdline.AtMost(1, "a run"), ValidArgsFunction: a.oneRun(run.Flows),
		RunE: func(cmd *cobra.Command, args []string) error {
			raised := more.limits(cmd)
			can := (*flowRun).goesOn
			if raised != nil {
				can = (*flowRun).raisable
			}
			l, err := a.flowMeant(args, can, "could be gone on with")
			if err != nil {
				return err
			}
			return a.resumeRun(cmd, l, raised)
		},
	}
	more.addTo(c, false)
	return a.JSONFlag(c)
}

func (l *flowRun) made() bool { return l.state.Ready || len(l.plan.Sandboxes) == 0 }

func (l *flowRun) unfinished() bool { return l.state.Draft() != "" }

func (l *flowRun) finish(a *app) error { return a.writeDraft(&l.plan, l.run, l.state) }

// goOn carries on a flow that this process holds.
func (l *flowRun) goOn(cmd *cobra.Command, a *app, h *run.Host, events []run.Event, raised *run.Limits) error {
	if !l.state.Ready {
		ready, err := h.Append(run.Ready, run.ActorHost, flow.Made{})
		if err != nil {
			return err
		}
		events = append(events, ready)
	}
	agents, err := flowAgents(l.engine, &l.plan)
	if err != nil {
		return err
	}
	ctx, release := enduring(cmd.Context())
	defer release()
	made, err := l.places(ctx, events)
	if err != nil {
		return err
	}
	if raised != nil {
		ev, err := a.raiseFlow(ctx, l, h, made, agents, raised)
		if err != nil {
			return err
		}
		events = append(events, ev)
	}
	works := runner.NewFlow(hosting{a, l.engine}, l.engine, cmdline.Snapshots(l.engine), made, agents)
	return a.carryFlow(ctx, l.engine, works, &flow.Carrier{Plan: &l.plan, Run: l.run, Host: h, Runner: works}, events)
}

// raisable reports whether a flow could be resumed with other limits.
func (l *flowRun) raisable() bool {
	return l.goesOn() || !l.hosted && l.state.Raisable()
}

// raise changes the limits in the plan, if the flow can be resumed within them.
func (l *flowRun) raise(limits *run.Limits) error {
	if l.state.Over() && !l.state.Raisable() {
		return cmp.Or(l.open(), l.undone())
	}
	l.plan.Raise(limits)
	if err := l.plan.Limits.Check(); err != nil {
		return err
	}
	if end := l.state.Reached(); end != nil {
		return tooLow(l.run.Kind, l.run.ID, end.Reason, end.Detail)
	}
	return nil
}

// raiseFlow records the plan's new limits, if they would limit its agents.
func (a *app) raiseFlow(ctx context.Context, l *flowRun, h *run.Host, made map[string]*spec.Sandbox, agents map[string]*spec.Agent, limits *run.Limits) (run.Event, error) {
	var ids []string
	for _, room := range l.plan.Rooms() {
		sb := made[room.Name]
		if sb == nil {
			continue
		}
		ids = append(ids, sb.ID)
		w, err := provision.MeteringIn(l.engine, sb)
		if of := agents[room.Agent]; err == nil && of != nil {
			err = a.budgetable(of, l.plan.Budget(), w)
		}
		if err != nil {
			return run.Event{}, err
		}
	}
	return a.raise(ctx, l.engine, h, limits, ids)
}

// workplaces returns the sandboxes of a flow to resume.
func (l *flowRun) workplaces() (map[string]*spec.Sandbox, error) {
	made := map[string]*spec.Sandbox{}
	for name, id := range l.plan.Sandboxes {
		sb, err := l.engine.Find(id)
		if errors.Is(err, spec.ErrNotFound) {
			return nil, spec.Errorf(spec.ErrNotFound, "the sandbox %s of the run %s is not there", l.state.Sandboxes[name], l.run.ID).
				WithHint("what is done is in %s; bothy flow run begins anew", l.run.Dir())
		}
		if err != nil {
			return nil, err
		}
		made[name] = sb
	}
	return made, nil
}
