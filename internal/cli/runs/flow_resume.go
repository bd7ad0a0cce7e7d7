package runs

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/provision"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runner"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/spec"
)

func flowResumeCommand(a *app) *cobra.Command {
	var more raiseFlags
	c := &cobra.Command{
		Use: "resume [RUN]", Short: "Carry a flow on that was cut short, waited or failed; without RUN the only one",
		Long: "Goes on with the first step that has no result. A step is passed over if it was\nvalidated, and neither its output nor its inputs have changed since. One that\nhas come to a limit goes on with another: --max-time, --max-tokens, --max-cost.",
		Args: cmdline.AtMost(1, "a run"), ValidArgsFunction: a.oneRun(run.Flows),
		RunE: func(cmd *cobra.Command, args []string) error {
			raised := more.limits(cmd)
			can := (*runstate.Flow).CanResume
			if raised != nil {
				can = (*runstate.Flow).CanRaise
			}
			l, err := a.flowMeant(args, can, "can go on")
			if err != nil {
				return err
			}
			return a.resumeRun(cmd, l, raised)
		},
	}
	more.addFlags(c, false)
	return a.JSONFlag(c)
}

// resumeFlow carries on a flow that this process holds.
func (a *app) resumeFlow(cmd *cobra.Command, l *runstate.Flow, h *run.Host, events []run.Event, raised *run.Limits) error {
	if !l.State.Ready {
		ready, err := h.Append(run.Ready, run.ActorHost, flow.Made{})
		if err != nil {
			return err
		}
		events = append(events, ready)
	}
	agents, err := flowAgents(l.Engine, &l.Plan)
	if err != nil {
		return err
	}
	ctx, release := enduring(cmd.Context())
	defer release()
	made, err := l.FindSandboxes(ctx, events)
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
	works := runner.NewFlow(hosting{a, l.Engine}, l.Engine, cmdline.Snapshots(l.Engine), made, agents)
	return a.carryFlow(ctx, l.Engine, works, &flow.Carrier{Plan: &l.Plan, Run: l.Run, Host: h, Runner: works}, events)
}

// raiseFlow records the plan's new limits, if they would limit its agents.
func (a *app) raiseFlow(ctx context.Context, l *runstate.Flow, h *run.Host, made map[string]*spec.Sandbox, agents map[string]*spec.Agent, limits *run.Limits) (run.Event, error) {
	var ids []string
	for _, room := range l.Plan.Rooms() {
		sb := made[room.Name]
		if sb == nil {
			continue
		}
		ids = append(ids, sb.ID)
		w, err := provision.MeteringIn(l.Engine, sb)
		if of := agents[room.Agent]; err == nil && of != nil {
			err = a.budgetable(of, l.Plan.Budget(), w)
		}
		if err != nil {
			return run.Event{}, err
		}
	}
	return a.RaiseLimits(ctx, l.Engine, h, limits, ids)
}
