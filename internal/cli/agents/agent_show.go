package agents

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/spec"
)

func (a *app) agentShowCommand() *cobra.Command {
	return a.JSONFlag(&cobra.Command{
		Use: "show NAME", Short: "Show the description of an agent, and where it comes from",
		Long: `Prints the description as it is written, a YAML document. Saved as NAME.yaml in the
directory of your own agents, and changed there, it is used instead of ours.`,
		Args: cmdline.Exactly(1, "an agent"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return a.described(cmd, args, word)
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.showAgent(args[0]) },
	})
}

// shownAgent is the agent in show --json.
type shownAgent struct {
	Source string `json:"source"`
	*spec.Agent
}

func (a *app) showAgent(name string) error {
	e, err := a.Engine()
	if err != nil {
		return err
	}
	d, err := e.Agents.Find(name)
	if err != nil {
		return err
	}
	text, file, err := e.Agents.Text(d.Name)
	if err != nil {
		return err
	}
	if file == "" {
		file = builtIn
	}
	if a.JSON {
		return a.PrintJSON(shownAgent{file, d})
	}
	_, err = fmt.Fprintf(a.Out, "# %s\n%s", console.Printable(file), console.Printable(string(text)))
	return err
}
