// Package secrets has the commands for secrets and their leases.
package secrets

import (
	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
)

// app is one invocation of a command of this package.
type app struct{ *cmdline.App }

// Secret returns the command "secret".
func Secret(a *cmdline.App) *cobra.Command { return (&app{a}).secretCommand() }
