// Package system has the commands about this host and the state directory: their checks, their disk use, and the
// version.
package system

import (
	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
)

// app is one invocation of a command of this package.
type app struct{ *cmdline.App }

// Prune returns the command "prune".
func Prune(a *cmdline.App) *cobra.Command { return (&app{a}).pruneCommand() }

// System returns the command "system".
func System(a *cmdline.App) *cobra.Command { return (&app{a}).systemCommand() }

// Doctor returns the command "doctor".
func Doctor(a *cmdline.App) *cobra.Command { return (&app{a}).doctorCommand() }

// Version returns the command "version".
func Version(a *cmdline.App) *cobra.Command { return (&app{a}).versionCommand() }
