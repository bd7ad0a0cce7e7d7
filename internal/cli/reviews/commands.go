// Package reviews has the commands that show, apply, discard and fetch the changes of a sandbox.
package reviews

import (
	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
)

// app is one invocation of a command of this package.
type app struct{ *cmdline.App }

// Apply returns the command "apply".
func Apply(a *cmdline.App) *cobra.Command { return (&app{a}).applyCommand() }

// Diff returns the command "diff".
func Diff(a *cmdline.App) *cobra.Command { return (&app{a}).diffCommand() }

// Discard returns the command "discard".
func Discard(a *cmdline.App) *cobra.Command { return (&app{a}).discardCommand() }

// Fetch returns the command "fetch".
func Fetch(a *cmdline.App) *cobra.Command { return (&app{a}).fetchCommand() }
