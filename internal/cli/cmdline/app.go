// Package cmdline is one invocation of the command line: its streams, its settings, and the state directory
// that it works on. It also holds what commands of several packages share: flags, checks of arguments,
// completions, files that a person names, and texts.
package cmdline

import (
	"os"
	"sync"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/app"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/settings"
	"github.com/bothy-dev/bothy/internal/snapshot"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// App is one invocation: its streams and its global flags.
type App struct {
	*console.Console
	Settings settings.Settings
	asking   sync.Mutex      // held while a passphrase is typed
	Guard    *hostpath.Guard // see paths
	// Claims returns the sandboxes that runs need, as [engine.Engine.Claims] does. May be nil.
	Claims func(*engine.Engine) (map[string]string, error)
	wrong  error // the error of a help request for an unknown command
}

// Existing opens the state directory and finds a sandbox in it.
func (a *App) Existing(ref string) (*engine.Engine, *spec.Sandbox, error) {
	e, err := a.Engine()
	if err != nil {
		return nil, nil, err
	}
	sb, err := e.Find(ref)
	return e, sb, err
}

// OnEngine returns a command's function that opens the state directory first.
func (a *App) OnEngine(run func(*cobra.Command, []string, *engine.Engine) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		e, err := a.Engine()
		if err != nil {
			return err
		}
		return run(cmd, args, e)
	}
}

// OnSandbox is [App.OnEngine] for a command whose first argument is a sandbox.
func (a *App) OnSandbox(run func(*cobra.Command, []string, *engine.Engine, *spec.Sandbox) error) func(*cobra.Command, []string) error {
	return a.OnEngine(func(cmd *cobra.Command, args []string, e *engine.Engine) error {
		sb, err := e.Find(args[0])
		if err != nil {
			return err
		}
		return run(cmd, args, e, sb)
	})
}

// Engine opens the state directory.
func (a *App) Engine() (*engine.Engine, error) {
	return app.Open(app.Options{
		Settings: a.Settings, Note: func(text string) { a.Note("%s", text) },
		Unenforced: a.warnLimit, Passphrase: a.passphrase, OwnProcess: true, Claims: a.Claims,
	})
}

// warnLimit warns a user at a terminal of a limit that is not enforced.
func (a *App) warnLimit(l spec.Enforcement) {
	if term.IsTerminal(a.Err) {
		a.Note("the %s limit is not enforced on this host: %s", l.Limit, l.Reason)
	}
}

// Snapshots returns the snapshots of an engine's sandboxes.
func Snapshots(e *engine.Engine) *snapshot.Snapshots { return snapshot.New(e) }

// Paths returns the guard for paths that a person names. It knows the directories that sandboxes
// write to.
func (a *App) Paths() (*hostpath.Guard, error) {
	if a.Guard != nil {
		return a.Guard, nil
	}
	e, err := a.Engine()
	if err == nil {
		a.Guard, err = e.Paths()
	}
	return a.Guard, err
}

// OpenNamed opens a file for reading that a person names.
func (a *App) OpenNamed(path string) (*os.File, error) {
	g, err := a.Paths()
	if err != nil {
		return nil, err
	}
	return g.Open(path)
}

// ReadFile reads a regular file that a person names, of at most so many bytes.
func (a *App) ReadFile(path string, most int64) ([]byte, error) {
	g, err := a.Paths()
	if err != nil {
		return nil, err
	}
	return g.ReadFile(path, most)
}

// Exactly returns a check for the number of arguments; its error names the missing ones.
func Exactly(n int, what string) func(*cobra.Command, []string) error {
	return checkCount(func(got int) bool { return got == n }, "%s needs %s", what)
}

// AtMost returns a check that allows at most so many arguments.
func AtMost(n int, what string) func(*cobra.Command, []string) error {
	return checkCount(func(got int) bool { return got <= n }, "%s takes %s at most", what)
}

// AtLeast returns a check that demands so many arguments or more; its error names the missing ones.
func AtLeast(n int, what string) func(*cobra.Command, []string) error {
	return checkCount(func(got int) bool { return got >= n }, "%s needs %s", what)
}

func checkCount(fits func(int) bool, format, what string) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if !fits(len(args)) {
			return spec.Errorf(spec.ErrUsage, format, cmd.CommandPath(), what).WithHint("usage: %s", cmd.UseLine())
		}
		return nil
	}
}
