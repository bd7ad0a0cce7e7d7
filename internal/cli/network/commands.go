// Package network has the commands that show and change what sandboxes may reach, and what they reached.
package network

import (
	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
)

// app is one invocation of a command of this package.
type app struct{ *cmdline.App }

// Network returns the command "network".
func Network(a *cmdline.App) *cobra.Command { return (&app{a}).networkCommand() }

// Policy returns the command "policy".
func Policy(a *cmdline.App) *cobra.Command { return (&app{a}).policyCommand() }
