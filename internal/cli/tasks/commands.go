// Package tasks has the commands for the tasks of a project.
package tasks

import (
	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
)

// app is one invocation of a command of this package.
type app struct{ *cmdline.App }

// Task returns the command "task".
func Task(a *cmdline.App) *cobra.Command { return (&app{a}).taskCommand() }
