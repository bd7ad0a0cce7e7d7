package tasks

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/spec"
)

// claimFlags are the flags of claim.
type claimFlags struct {
	taskFilter
	lease                 time.Duration
	renew, release, force bool
}

func (t *taskCall) claimCommand() *cobra.Command {
	var f claimFlags
	c := &cobra.Command{
		Use: "claim [ID]", Short: "Take the next task that is ready, or one by its ID",
		Long: `Takes the first task that bothy task ready lists, or the one of an ID, and shows it. It is
yours (see --actor) for as long as the lease: renew that while you work, or somebody else
is given the task when it has run out. If no task is ready the exit code is 4; if somebody
else has the task, or it cannot begin, 5.`,
		Example: "  bothy task claim --actor worker-1 --lease 10m --json\n  bothy task claim --renew bd-a1b2 --actor worker-1\n  bothy task claim --release bd-a1b2 --actor worker-1",
		Args:    cmdline.AtMost(1, "the ID of a task"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.checkFlags(cmd, args); err != nil {
				return err
			}
			var x *task.Task
			g, err := t.change(cmd.Context(), func(g *task.Graph, who string, now time.Time) (err error) {
				x, err = f.claimTask(g, args, who, now)
				return err
			})
			if err != nil {
				return err
			}
			if f.quiet && !t.JSON {
				return t.printIDs(g, []*task.Task{x}, nil)
			}
			return t.showTask(g, x)
		},
	}
	f.addFlags(t, c)
	c.Flags().DurationVar(&f.lease, "lease", task.UsualLease, "for how long, from 1s to 720h")
	c.Flags().BoolVar(&f.renew, "renew", false, "make a claim of yours last for another lease from now on")
	c.Flags().BoolVar(&f.release, "release", false, "give a task of yours back")
	c.Flags().BoolVar(&f.force, "force", false, "with --release, also if another worker has it")
	return t.addActorFlag(c)
}

// checkFlags refuses flags that do not go together.
func (f *claimFlags) checkFlags(cmd *cobra.Command, args []string) error {
	given := cmd.Flags().Changed
	switch {
	case f.renew && f.release:
		return spec.Errorf(spec.ErrUsage, "--renew and --release exclude each other")
	case (f.renew || f.release) && len(args) == 0:
		return spec.Errorf(spec.ErrUsage, "--renew and --release need the ID of a task").WithHint("usage: %s", cmd.UseLine())
	case f.force && !f.release:
		return spec.Errorf(spec.ErrUsage, "--force goes with --release")
	case f.release && given("lease"):
		return spec.Errorf(spec.ErrUsage, "--lease does not go with --release")
	}
	for _, name := range []string{"priority", "type", "label", "parent", "sort"} {
		if len(args) > 0 && given(name) {
			return spec.Errorf(spec.ErrUsage, "--%s chooses among tasks, and does not go with an ID", name)
		}
	}
	return nil
}

func (f *claimFlags) claimTask(g *task.Graph, args []string, who string, now time.Time) (*task.Task, error) {
	switch {
	case f.renew:
		return g.Renew(args[0], who, f.lease, now)
	case f.release:
		return g.Release(args[0], who, f.force, now)
	case len(args) > 0:
		return g.Claim(args[0], who, f.lease, now)
	}
	filter, order, err := f.filter(g)
	if err != nil {
		return nil, err
	}
	return g.ClaimNext(&filter, order, who, f.lease, now)
}
