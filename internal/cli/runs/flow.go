package runs

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/spec"
)

func flowCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "flow", Aliases: []string{"flows"}, Short: "Carry out steps that need each other, by agents, commands and people",
		Long: "Carries out the steps of a file in sandboxes, in the order in which they need each other.\nThe output of a step is taken out and judged here, where no sandbox can write. Each result\nis on the disk before the next step begins.",
	}
	c.AddCommand(flowInitCommand(a), flowRunCommand(a), flowBuildCommand(a), runLsCommand(a, flows), flowShowCommand(a), flowSchemaCommand(a), runStatusCommand(a, flows),
		runWatchCommand(a, flows), flowLogCommand(a), flowApproveCommand(a), flowAnswerCommand(a),
		runStopCommand(a, flows, func(named []string) (runstate.Run, error) {
			return a.flowMeant(named, (*runstate.Flow).CanStop, "can be stopped")
		}), flowResumeCommand(a), runRmCommand(a, flows))
	return c
}

// readFlowFile reads a flow from its file.
func (a *app) readFlowFile(path string) (*flowplan.Flow, error) {
	text, err := a.ReadFile(path, maxPrompt)
	if err != nil {
		return nil, hostpath.NotOpened(spec.ErrUsage, "read the flow "+path, err)
	}
	return flowplan.Parse(filepath.Base(path), text)
}

// between returns a check for the number of arguments.
func between(least, most int, what string) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return spec.Errorf(spec.ErrUsage, "%s needs %s", cmd.CommandPath(), what).WithHint("usage: %s", cmd.UseLine())
		}
		return nil
	}
}
