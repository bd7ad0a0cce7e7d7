package runs

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/term"
)

func flowShowCommand(a *app) *cobra.Command {
	return a.JSONFlag(&cobra.Command{
		Use: "show FILE", Short: "Check a flow, and show what it would do", Args: cmdline.Exactly(1, "a file"),
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := a.readFlowFile(args[0])
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(f)
			}
			w := a.Table()
			fmt.Fprintln(w, "STEP\tBY\tNEEDS\tOUTPUT")
			for i := range f.Steps {
				s := &f.Steps[i]
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", s.ID, stepBy(f, s), cmdline.Dash(strings.Join(s.Needs, ",")), cmdline.Dash(s.Output))
				for k := range s.Steps {
					in := &s.Steps[k]
					fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", in.ID, stepBy(f, in), cmdline.Dash(strings.Join(in.Needs, ",")), cmdline.Dash(in.Output))
				}
			}
			return w.Flush()
		},
	})
}

// stepBy names the agent or person for a step, as far as the flow tells.
func stepBy(f *flowplan.Flow, s *flowplan.Step) string {
	switch who := cmp.Or(s.Agent, (&flowplan.Plan{Flow: f}).AgentOf(&flowplan.Node{Step: s})); {
	case s.Each != "":
		return "for each of " + s.Each
	case s.Approval != nil || s.Question != nil:
		return "you"
	case who == flowplan.Shell:
		return "a command"
	case who == "":
		return "--agent"
	default:
		return term.Sanitize(who)
	}
}

func flowSchemaCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of a flow", Args: cmdline.Exactly(0, "no argument"),
		RunE: func(*cobra.Command, []string) error {
			_, err := a.Out.WriteString(flowplan.Schema())
			return err
		},
	}
}

func flowLogCommand(a *app) *cobra.Command {
	c := runLogCommand(a, flows)
	c.Long = "Shows the events of a flow, in their order. With --json it is every event, a line\neach. What each try said is in logs/ of the run's directory."
	return c
}
