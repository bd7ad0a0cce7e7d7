package runs

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/cli/checkpoints"
	"github.com/bothy-dev/bothy/internal/cli/runview"
	"github.com/bothy-dev/bothy/internal/launch"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/internal/snapshot"
	"github.com/bothy-dev/bothy/spec"
)

func loopRewindCommand(a *app) *cobra.Command {
	var hint string
	var force bool
	c := &cobra.Command{
		Use: "rewind [-f] [RUN] N", Short: "Have a loop go on from where iteration N ended",
		Long: "Puts the files of the sandbox back to the checkpoint of iteration N, and has the loop wait\nthere: bothy loop resume goes on with the next. 0 is before the first. The files until\nnow are kept as a checkpoint of their own. Tasks that were closed later are open again.\nUsage stays counted. Without RUN it is the newest.",
		Args: between(1, 2, "the number of an iteration, and before it a run, unless it is the newest"), ValidArgsFunction: a.oneRun(run.Loops),
		RunE: func(cmd *cobra.Command, args []string) error {
			last := len(args) - 1
			n, err := iterationArg(cmd, args[last])
			if err != nil {
				return err
			}
			l, err := a.loopMeant(args[:last])
			if err != nil {
				return err
			}
			return a.rewind(cmd, l, n, force, hint)
		},
	}
	c.Flags().StringVar(&hint, "hint", "", "tell the next iteration something")
	c.Flags().BoolVarP(&force, "force", "f", false, "do not ask")
	return a.JSONFlag(c)
}

// rewind rewinds a loop, and prints how it stands then.
func (a *app) rewind(cmd *cobra.Command, l *runstate.Loop, n int, force bool, hint string) error {
	req := launch.RewindRequest{Iteration: n, Hint: hint}
	if !force {
		req.Agreed = func(sb *spec.Sandbox, p checkpoint.Point) error {
			return checkpoints.WantsBack(a.Console, sb, p, snapshot.RestoreOptions{}, "add -f, or run it in a terminal, where it asks")
		}
	}
	if err := a.launcher(l.Engine).Rewind(cmd.Context(), l, req); err != nil {
		return err
	}
	if len(l.State.Beneath) > 0 {
		a.Note("below the restored files %s; the verdicts of then no longer hold: the gates are asked after the next iteration", runview.BeneathText(l.State))
	}
	if a.JSON {
		return a.PrintJSON(l.View())
	}
	fmt.Fprintln(a.Out, l.Run.ID)
	return nil
}
