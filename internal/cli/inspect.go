package cli

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/document"
	"github.com/bothy-dev/bothy/internal/engine"
)

func (a *app) inspectCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "inspect SANDBOX...", Short: "Show everything about sandboxes, as JSON",
		Args: cmdline.AtLeast(1, "a sandbox"), ValidArgsFunction: a.SandboxNames,
		RunE: a.OnEngine(func(cmd *cobra.Command, args []string, e *engine.Engine) error {
			var out []document.Inspected
			var unheard error
			for _, name := range args {
				sb, err := e.Find(name)
				if err != nil {
					return err
				}
				i, err := document.Inspect(cmd.Context(), e, sb)
				out, unheard = append(out, i), cmp.Or(unheard, err)
			}
			// One sandbox is one object, as with docker sandbox inspect.
			if len(out) == 1 {
				return cmp.Or(a.PrintJSON(out[0]), unheard)
			}
			return cmp.Or(a.PrintJSON(out), unheard)
		}),
	}
	return a.JSONFlag(c)
}
