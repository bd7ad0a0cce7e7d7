// Package images has the commands for templates, images and their builds, and finds the template of a new sandbox.
package images

import (
	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
)

// app is one invocation of a command of this package.
type app struct{ *cmdline.App }

// Save returns the command "save".
func Save(a *cmdline.App) *cobra.Command { return (&app{a}).saveCommand() }

// Template returns the command "template".
func Template(a *cmdline.App) *cobra.Command { return (&app{a}).templateCommand() }
