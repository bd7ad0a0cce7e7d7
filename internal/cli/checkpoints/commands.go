// Package checkpoints has the commands that make, restore and exchange checkpoints, and fork sandboxes.
package checkpoints

import (
	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
)

// app is one invocation of a command of this package.
type app struct{ *cmdline.App }

// Checkpoint returns the command "checkpoint".
func Checkpoint(a *cmdline.App) *cobra.Command { return (&app{a}).checkpointCommand() }

// Fork returns the command "fork".
func Fork(a *cmdline.App) *cobra.Command { return (&app{a}).forkCommand() }
