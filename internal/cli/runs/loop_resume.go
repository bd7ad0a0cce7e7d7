package runs

import (
	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/run"
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
