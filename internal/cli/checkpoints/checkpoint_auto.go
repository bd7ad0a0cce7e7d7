package checkpoints

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/reconfigure"
	"github.com/bothy-dev/bothy/spec"
)

// never is the word for no automatic checkpoints.
const never = "off"

func (a *app) checkpointAutoCommand() *cobra.Command {
	return a.JSONFlag(&cobra.Command{
		Use:   "auto SANDBOX [WHEN]",
		Short: "Have checkpoints made by themselves",
		Long: `Decides when checkpoints of a sandbox are made without anybody asking, from now on:
` + spec.EachTurn + `, while it waits for a model's answer; ` + spec.EachCommit + `, when a branch has moved;
a time such as 10m; several of them with commas; or ` + never + `. Without WHEN it tells.
Where nothing has changed none is made, and old ones go: of the last hour one in five
minutes stays, of the last day one an hour, of the last month one a day, and always the
newest ten.`,
		Args: func(cmd *cobra.Command, args []string) error {
			return errors.Join(cmdline.AtLeast(1, "a sandbox")(cmd, args), cmdline.AtMost(2, "a sandbox and when")(cmd, args))
		}, ValidArgsFunction: a.sandboxAndOccasion,
		RunE: a.OnSandbox(func(cmd *cobra.Command, args []string, e *engine.Engine, sb *spec.Sandbox) error {
			when, err := spec.ParseOccasions(sb.Checkpoint)
			if len(args) == 2 {
				when = spec.Occasions{}
				if args[1] != never {
					when, err = spec.ParseOccasions(args[1])
				}
				if err == nil {
					err = reconfigure.Checkpoints(cmd.Context(), e, sb, when)
				}
			}
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(map[string]any{"sandbox": sb.Name, "checkpoint": when.String()})
			}
			word := when.String()
			if word == "" {
				word = never
			}
			fmt.Fprintln(a.Out, word)
			return nil
		}),
	})
}

// sandboxAndOccasion completes a sandbox and then when to make checkpoints.
func (a *app) sandboxAndOccasion(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return a.OneSandbox(cmd, args, word)
	}
	return []string{spec.EachTurn, spec.EachCommit, never}, cobra.ShellCompDirectiveNoFileComp
}
