package runs

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/launch"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runstate"
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

// resumeRun resumes a run, within raised limits if there are any.
func (a *app) resumeRun(cmd *cobra.Command, l runstate.Run, raised *run.Limits) error {
	return a.carryOut(cmd, func(ctx context.Context) (*launch.Ended, error) {
		return a.launcher(l.Recorded().Engine).Resume(ctx, l, raised)
	})
}
