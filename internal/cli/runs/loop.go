package runs

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/spec"
)

func loopCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "loop", Aliases: []string{"loops"}, Short: "Have an agent work until checks out of its reach agree",
		Long: "Has an agent work at one task again and again, each time with a fresh memory, until it\nsays that it is done and commands of yours agree, on a copy of the files that it cannot\nreach. Each result is on the disk before the next step begins.",
	}
	c.AddCommand(loopRunCommand(a), runLsCommand(a, loops), loopStatusCommand(a), runWatchCommand(a, loops), loopLogCommand(a), loopHintCommand(a),
		runStopCommand(a, loops, func(named []string) (runstate.Run, error) { return a.loopMeant(named) }), loopPauseCommand(a), loopResumeCommand(a), loopRewindCommand(a),
		runRmCommand(a, loops), loopSchemaCommand(a))
	return c
}

func loopHintCommand(a *app) *cobra.Command {
	var clear bool
	c := &cobra.Command{
		Use: "hint [RUN] TEXT|--clear", Short: "Tell the next iteration something; without RUN of the newest loop", ValidArgsFunction: a.oneRun(run.Loops),
		Example: "  bothy loop hint RUN 'look at the parser first'\n  bothy loop hint --clear RUN",
		Args: func(cmd *cobra.Command, args []string) error {
			if clear {
				return cmdline.AtMost(1, "a run beside --clear")(cmd, args)
			}
			return between(1, 2, "a text, and before it a run, unless it is the newest")(cmd, args)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			named, text := args, ""
			if !clear {
				named, text = args[:len(args)-1], args[len(args)-1]
				if strings.TrimSpace(text) == "" {
					return spec.Errorf(spec.ErrUsage, "the hint is empty").WithHint("--clear takes back what no iteration was told yet")
				}
				if len(named) == 0 {
					if err := a.notARun(run.Loops, text, "bothy loop hint RUN TEXT"); err != nil {
						return err
					}
				}
			}
			l, err := a.loopMeant(named)
			switch {
			case err != nil:
			case clear:
				err = l.ClearHints()
			default:
				err = l.LeaveHint(text)
			}
			if err == nil {
				fmt.Fprintln(a.Out, l.Run.ID)
			}
			return err
		},
	}
	c.Flags().BoolVar(&clear, "clear", false, "take back what no iteration was told yet")
	return c
}

func loopPauseCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "pause [RUN]", Short: "Have a loop wait for you after its iteration; without RUN the newest",
		Long: "Has the process that carries a loop on end with code 7 as soon as its iteration is over.\nbothy loop resume goes on.",
		Args: cmdline.AtMost(1, "a run"), ValidArgsFunction: a.oneRun(run.Loops),
		RunE: func(_ *cobra.Command, args []string) error {
			l, err := a.loopMeant(args)
			if err == nil {
				err = l.LeavePause()
			}
			if err == nil {
				fmt.Fprintln(a.Out, l.Run.ID)
			}
			return err
		},
	}
}
