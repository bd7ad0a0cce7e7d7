package runs

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/launch"
)

func flowBuildCommand(a *app) *cobra.Command {
	f := &flowFlags{}
	c := &cobra.Command{
		Use:   "build --agent NAME [flags] DESCRIPTION [FILE]",
		Short: "Have an agent draft a flow from a description",
		Long: `Has an agent write a flow for DESCRIPTION, sends it back as long as that is none, and
writes it to FILE (default: flow.yaml), which must not be there yet. It is a flow of one
step itself: its run is called build-DATE-HEX, and has logs and outputs as others have. Its
sandbox goes when there is a flow; if there is none yet, when you stop or remove the run.`,
		Example: `  bothy flow build --agent claude "translate a file into three languages, and have me check them"`,
		Args:    between(1, 2, "a description, and a file if it shall not be flow.yaml"),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.flowBuild(cmd, f, args) },
	}
	f.addRooms(a, c)
	fs := c.Flags()
	fs.StringVar(&f.req.Plan.Agent, "agent", "", "who drafts it")
	fs.DurationVar(&f.time, "max-time", 0, "for all of it, e.g. 1h (default: any)")
	cmdline.CompleteFlag(c, "agent", a.KnownAgents)
	cmdline.CompleteFlag(c, "secret", a.SecretNames)
	return a.JSONFlag(c)
}

// flowBuild has an agent draft a flow, and writes the draft to a file.
func (a *app) flowBuild(cmd *cobra.Command, f *flowFlags, args []string) error {
	file := "flow.yaml"
	if len(args) > 1 {
		file = args[1]
	}
	return a.carryFlow(cmd, f, nil, func(ctx context.Context, l *launch.Launcher) (*launch.Ended, error) {
		return l.DraftFlow(ctx, args[0], file, f.req)
	})
}
