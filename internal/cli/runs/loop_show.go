package runs

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/runview"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/spec"
)

func loopStatusCommand(a *app) *cobra.Command {
	var tasks bool
	c := runStatusCommand(a, loops)
	c.Flags().BoolVar(&tasks, "tasks", false, "also the tasks that it takes its work from; with --json those alone")
	show := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if !tasks {
			return show(cmd, args)
		}
		l, err := openRun(a, loops, strings.Join(args, ""), runstate.ReadLoop)
		if err == nil && !a.JSON {
			err = a.PrintStatus(l)
		}
		if err != nil {
			return err
		}
		return a.PrintTasks(cmd.Context(), l)
	}
	return c
}

func loopLogCommand(a *app) *cobra.Command {
	f := runview.OutputFlags{}
	c := runLogCommand(a, loops)
	c.Long = "Shows the events of a loop, in their order. With --json it is every event, a line\neach. With --iteration it is what the agent printed then, as bothy logs --agent shows it;\nwith --raw the very bytes."
	c.Example = "  bothy loop log\n  bothy loop log --iteration 3\n  bothy loop log --iteration 3 --raw > said"
	c.Flags().IntVar(&f.Iteration, "iteration", 0, "show what the agent printed in this iteration, the last time that it was tried")
	c.Flags().BoolVar(&f.Raw, "raw", false, "with --iteration: as it was printed")
	show := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(cmd, f); err != nil {
			return err
		}
		if f.Iteration == 0 {
			return show(cmd, args)
		}
		l, err := openRun(a, loops, strings.Join(args, ""), runstate.ReadLoop)
		if err != nil {
			return err
		}
		return a.PrintOutput(cmd.Context(), l, f)
	}
	return c
}

// checkOutput refuses flags of loop log that do not go together.
func checkOutput(cmd *cobra.Command, f runview.OutputFlags) error {
	switch given := cmd.Flags().Changed("iteration"); {
	case given && f.Iteration < 1:
		return spec.Errorf(spec.ErrUsage, "%d is not the number of an iteration", f.Iteration)
	case f.Raw && !given:
		return spec.Errorf(spec.ErrUsage, "--raw is for --iteration")
	}
	return nil
}
