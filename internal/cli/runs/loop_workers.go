package runs

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/loop/taskqueue"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runner"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/internal/snapshot"
	"github.com/bothy-dev/bothy/spec"
)

// joinable refuses a sandbox in which the work of several workers could not be merged.
func joinable(p *loopplan.Plan, sb *spec.Sandbox) error {
	if !p.Parallel() {
		return nil
	}
	switch sb.Mode() {
	case spec.WorkspaceLive:
		return spec.Errorf(spec.ErrUsage, "--parallel %d: all would write to %s at once, and over each other's work", p.Workers, p.Directory).
			WithHint("give each a layer of its own, from which the work is brought together: --workspace %s", spec.WorkspaceReview)
	case spec.WorkspaceClone:
		return spec.Errorf(spec.ErrUsage, "--parallel %d: clones are merged by git, and by a person who can answer its questions", p.Workers).
			WithHint("have files be brought together: --workspace %s", spec.WorkspaceReview)
	}
	if len(sb.Private) > 0 {
		return spec.Errorf(spec.ErrUsage, "--parallel %d: each worker would have its own %s, and their contents cannot be merged", p.Workers, strings.Join(sb.Private, ", ")).
			WithHint("leave --private out, and the setting private")
	}
	return nil
}

// makeWorkers makes a sandbox for each worker, like the loop's. It calls noted for each before the sandbox
// exists.
func makeWorkers(ctx context.Context, e *engine.Engine, p *loopplan.Plan, sb *spec.Sandbox, noted func(loop.Place) error) (list []loop.Place, err error) {
	if !p.Parallel() {
		return nil, nil
	}
	s := cmdline.Snapshots(e)
	if err := snapshot.NewExchange(s).ReadyToJoin(ctx, sb); err != nil {
		return nil, err
	}
	from, err := s.Checkpoint(ctx, sb, "", fmt.Sprintf("for %d workers", p.Workers), false)
	for n := 1; err == nil && n <= p.Workers; n++ {
		_, err = s.ForkNoted(ctx, sb, from, sb.Name+"-"+strconv.Itoa(n), true, func(at *spec.Sandbox) error {
			list = append(list, loop.Place{Seat: loop.Seat{Worker: n}, ID: at.ID, Sandbox: at.Name})
			return noted(list[n-1])
		})
	}
	return list, err
}

// crew holds all that is needed to run a loop.
type crew struct {
	plan  *loopplan.Plan
	run   *run.Run
	host  *run.Host
	works *runner.Loop
	queue *taskqueue.Queue
}

// carryLoop runs the loop alone, or with several workers.
func (c *crew) carryLoop(ctx context.Context, events []run.Event, tell func(run.Event, *loop.State)) (*loop.State, error) {
	l := &loop.Loop{Plan: c.plan, Run: c.run, Host: c.host, Runner: c.works, Queue: c.queue, Tell: tell}
	if c.plan.Parallel() {
		l.Runner = runner.NewTeam(c.works)
	}
	return l.Carry(ctx, events)
}

// dismiss removes the workers' places of a loop that cannot be resumed.
func (a *app) dismiss(e *engine.Engine, s *loop.State) {
	if !s.Final() {
		return
	}
	if err := runner.Unmake(e, runstate.Workplaces(s)); err != nil {
		a.Note("not all sandboxes of workers were removed: %v", err)
	}
}
