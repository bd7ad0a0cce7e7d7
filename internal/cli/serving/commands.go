// Package serving has the commands about the API: its server and its tokens.
package serving

import (
	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
)

// app is one invocation of a command of this package.
type app struct{ *cmdline.App }

// Serve returns the command "serve".
func Serve(a *cmdline.App) *cobra.Command { return (&app{a}).serveCommand() }

// Events returns the command "events".
func Events(a *cmdline.App) *cobra.Command { return (&app{a}).eventsCommand() }

// Token returns the command "token".
func Token(a *cmdline.App) *cobra.Command { return (&app{a}).tokenCommand() }
