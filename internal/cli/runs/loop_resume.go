package runs

import (
	"context"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/provision"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runner"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/spec"
)

func loopResumeCommand(a *app) *cobra.Command {
	var more raiseFlags
	c := &cobra.Command{
		Use: "resume [RUN]", Short: "Carry a loop on that was cut short, paused or stalled; without RUN the newest",
		Long:    "Goes on with the first step that has no result; an iteration that was under way is begun\nagain, with the files as it left them. One that has come to a limit goes on with another:\n--max-iterations, --max-time, --max-tokens, --max-cost.",
		Example: "  bothy loop resume\n  bothy loop resume --max-iterations 60 RUN",
		Args:    cmdline.AtMost(1, "a run"), ValidArgsFunction: a.oneRun(run.Loops),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := a.loopMeant(args)
			if err != nil {
				return err
			}
			return a.resumeRun(cmd, l, more.limits(cmd))
		},
	}
	more.addFlags(c, true)
	return a.JSONFlag(c)
}

// resumeLoop carries on a loop that this process holds.
func (a *app) resumeLoop(cmd *cobra.Command, l *runstate.Loop, h *run.Host, events []run.Event, raised *run.Limits) error {
	sb, err := l.Workplace()
	if err != nil {
		return err
	}
	of, err := runner.Worker(l.Engine.Agents, l.Plan.Agent)
	if err != nil {
		return err
	}
	reviewers, err := loopReviewers(l.Engine, &l.Plan)
	if err != nil {
		return err
	}
	places, err := placesOf(l.Engine, &l.Plan, l.State.Places)
	if err != nil {
		return err
	}
	if raised != nil {
		ev, err := a.raiseLoop(cmd.Context(), l, h, sb, slices.Collect(maps.Values(reviewers)), raised)
		if err != nil {
			return err
		}
		events = append(events, ev)
	}
	ctx, release := enduring(cmd.Context())
	defer release()
	works := runner.NewLoop(hosting{a, l.Engine}, l.Engine, cmdline.Snapshots(l.Engine), sb, of, &l.Plan, places, l.Run.Originals())
	return a.carryLoop(ctx, l.Engine, &crew{&l.Plan, l.Run, h, works, runstate.TaskQueueOf(l.Engine, &l.Plan, l.Run)}, events)
}

// raiseLoop records the plan's new limits, if they would limit its agents and reviewers.
func (a *app) raiseLoop(ctx context.Context, l *runstate.Loop, h *run.Host, sb *spec.Sandbox, reviewers []*spec.Agent, limits *run.Limits) (run.Event, error) {
	agents, err := capable(l.Engine, &l.Plan)
	var w provision.Metering
	if err == nil {
		w, err = provision.MeteringIn(l.Engine, sb)
	}
	if err == nil {
		err = a.loopBudgetable(&l.Plan, w, agents, reviewers)
	}
	if err != nil {
		return run.Event{}, err
	}
	return a.RaiseLimits(ctx, l.Engine, h, limits, l.Sandboxes())
}
