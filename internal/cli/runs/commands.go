// Package runs has the commands for loops and flows: to start them, watch them, steer them and resume them. It
// turns flags into requests to package launch, and shows the runs.
package runs

import (
	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/runview"
)

// app is one invocation of a command of this package.
type app struct{ runview.Viewer }

// newApp returns an invocation of a command of this package.
func newApp(a *cmdline.App) *app { return &app{runview.Viewer{App: a}} }

// Loop returns the command "loop".
func Loop(a *cmdline.App) *cobra.Command { return loopCommand(newApp(a)) }

// Ralph returns the command "ralph".
func Ralph(a *cmdline.App) *cobra.Command { return ralphCommand(newApp(a)) }

// Flow returns the command "flow".
func Flow(a *cmdline.App) *cobra.Command { return flowCommand(newApp(a)) }

// Runs returns the command "runs".
func Runs(a *cmdline.App) *cobra.Command { return runsCommand(newApp(a)) }
