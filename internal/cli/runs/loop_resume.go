package runs

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/provision"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runner"
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
	more.addTo(c, true)
	return a.JSONFlag(c)
}

func (l *loopRun) made() bool { return l.state.Ready }

func (l *loopRun) unfinished() bool { return false }

func (l *loopRun) finish(*app) error { return nil }

// goOn carries on a loop that this process holds.
func (l *loopRun) goOn(cmd *cobra.Command, a *app, h *run.Host, events []run.Event, raised *run.Limits) error {
	sb, err := l.workplace()
	if err != nil {
		return err
	}
	of, err := runner.Worker(l.engine.Agents, l.plan.Agent)
	if err != nil {
		return err
	}
	reviewers, err := loopReviewers(l.engine, &l.plan)
	if err != nil {
		return err
	}
	places, err := placesOf(l.engine, &l.plan, l.state.Places)
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
	works := runner.NewLoop(hosting{a, l.engine}, l.engine, cmdline.Snapshots(l.engine), sb, of, &l.plan, places, l.run.Originals())
	return a.carryLoop(ctx, l.engine, &crew{&l.plan, l.run, h, works, taskQueueOf(l.engine, &l.plan, l.run)}, events)
}

// raise changes the limits in the plan, if the loop can be resumed within them.
func (l *loopRun) raise(limits *run.Limits) error {
	if l.state.Final() && l.state.Status != run.Limited {
		return l.open()
	}
	l.plan.Raise(limits)
	if err := l.plan.Limits.Check(); err != nil {
		return err
	}
	end := loop.Reached(&l.plan, l.state)
	if limits.Iterations != nil {
		end = cmp.Or(end, loop.Exhausted(&l.plan, l.state))
	}
	if end != nil {
		return tooLow(l.run.Kind, l.run.ID, end.Reason, end.Detail)
	}
	return nil
}

// raiseLoop records the plan's new limits, if they would limit its agents and reviewers.
func (a *app) raiseLoop(ctx context.Context, l *loopRun, h *run.Host, sb *spec.Sandbox, reviewers []*spec.Agent, limits *run.Limits) (run.Event, error) {
	agents, err := capable(l.engine, &l.plan)
	var w provision.Metering
	if err == nil {
		w, err = provision.MeteringIn(l.engine, sb)
	}
	if err == nil {
		err = a.loopBudgetable(&l.plan, w, agents, reviewers)
	}
	if err != nil {
		return run.Event{}, err
	}
	return a.raise(ctx, l.engine, h, limits, l.sandboxes())
}

// workplace returns the sandbox of a loop to resume.
func (l *loopRun) workplace() (*spec.Sandbox, error) {
	sb, err := l.engine.Find(l.plan.Sandbox)
	if errors.Is(err, spec.ErrNotFound) {
		err = spec.Errorf(spec.ErrNotFound, "the sandbox %s of the run %s is not there", cmp.Or(l.state.Sandbox, l.plan.Sandbox), l.run.ID).
			WithHint("what was done is gone with it: bothy loop rm %s", l.run.ID)
	}
	return sb, err
}
