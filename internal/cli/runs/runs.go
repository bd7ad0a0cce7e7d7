package runs

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/runview"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/internal/term"
)

func runsCommand(a *app) *cobra.Command {
	return a.JSONFlag(&cobra.Command{
		Use: "runs", Short: "List loops and flows, first what waits for you", Args: cmdline.Exactly(0, "no argument"),
		Long: "Lists loops and flows: first those that wait for a person, then those that were cut short\nor got stuck, those that failed, those at work, and those that are done.",
		RunE: func(*cobra.Command, []string) error {
			e, err := a.Engine()
			if err != nil {
				return err
			}
			views, err := runstate.SummarizeAll(e, a.noteUnread)
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(map[string]any{"runs": views})
			}
			w := a.Table()
			fmt.Fprintln(w, "RUN\tKIND\tSTATUS\tWHY\tNEXT")
			for _, v := range views {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", v.ID, v.Kind, v.Status, cmdline.Dash(term.Opening(runview.WhyText(v))), cmdline.Dash(term.Sanitize(v.Next)))
			}
			return w.Flush()
		},
	})
}
