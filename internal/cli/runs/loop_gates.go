package runs

import (
	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/spec"
)

func loopSchemaCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of a file of gates", Args: cmdline.Exactly(0, "no argument"),
		RunE: func(*cobra.Command, []string) error {
			_, err := a.Out.WriteString(loopplan.Schema())
			return err
		},
	}
}

func gatesError(path string, err error) error {
	e := hostpath.NotOpened(spec.ErrUsage, "read the gates of "+path, err)
	if e.Class != nil {
		e.Hint = "docs/guide/gates.md tells what a file of gates may say"
	}
	return e
}

// readGates reads the file of --gates into the plan. The file is not read again, because it may be
// where the agent can write.
func (f *loopFlags) readGates(a *app) error {
	if f.gates == "" {
		return nil
	}
	text, err := a.ReadFile(f.gates, loopplan.MaxGates)
	var g *loopplan.Gates
	if err == nil {
		g, err = loopplan.ReadGates(text)
	}
	if err != nil {
		return gatesError(f.gates, err)
	}
	f.plan.AddGates(g)
	return nil
}
