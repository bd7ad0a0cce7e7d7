// Package agents has the commands that install, list, describe and remove agents.
package agents

import (
	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
)

// app is one invocation of a command of this package.
type app struct{ *cmdline.App }

// Agent returns the command "agent".
func Agent(a *cmdline.App) *cobra.Command { return (&app{a}).agentCommand() }
