// Package cli is the command line: one file per command, from words to calls of the engine and from
// results to text. It decides nothing.
//
// The answer goes to standard output, everything else to standard error. Errors are lower-case
// clauses after "bothy: error:", advice follows after "bothy: hint:". The CLI asks questions only on
// a terminal.
package cli

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/program"
	"github.com/bothy-dev/bothy/internal/provision"
	"github.com/bothy-dev/bothy/internal/settings"
	"github.com/bothy-dev/bothy/internal/snapshot"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/workspace"
	"github.com/bothy-dev/bothy/spec"
)

// app is one invocation: its streams and its global flags.
type app struct {
	*console.Console
	settings settings.Settings
	asking   sync.Mutex      // held while a passphrase is typed
	guard    *hostpath.Guard // see paths
	// claims returns the sandboxes that runs need, as [engine.Engine.Claims] does. May be nil.
	claims func(*engine.Engine) (map[string]string, error)
	wrong  error // the error of a help request for an unknown command
}

// Main runs a command line and returns its exit code.
func Main(args []string) int {
	a := &app{Console: &console.Console{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Command: "bothy"}, claims: claimIDs}
	args, done := a.asPlugin(args)
	if done {
		return spec.ExitOK
	}
	if a.Command != "bothy" {
		for _, c := range commands {
			a.Verbs = append(a.Verbs, c.name)
		}
	}
	args = dockerFingers(args[1:])
	return a.Report(a.execute(context.Background(), a.root(args), args))
}

//go:generate go test . -run TestReferencePages -update

// commands lists all commands in the order of the help.
var commands = []struct {
	name string
	make func(*app) *cobra.Command
}{
	{"run", (*app).runCommand},
	{"create", (*app).createCommand},
	{"exec", (*app).execCommand},
	{"ls", (*app).lsCommand},
	{"inspect", (*app).inspectCommand},
	{"stop", (*app).stopCommand},
	{"rm", (*app).rmCommand},
	{"prune", (*app).pruneCommand},
	{"reset", (*app).resetCommand},
	{"diff", (*app).diffCommand},
	{"apply", (*app).applyCommand},
	{"discard", (*app).discardCommand},
	{"checkpoint", (*app).checkpointCommand},
	{"fork", (*app).forkCommand},
	{"fetch", (*app).fetchCommand},
	{"cp", (*app).cpCommand},
	{"save", (*app).saveCommand},
	{"template", (*app).templateCommand},
	{"ports", (*app).portsCommand},
	{"logs", (*app).logsCommand},
	{"top", (*app).topCommand},
	{"cost", (*app).costCommand},
	{"agent", (*app).agentCommand},
	{"system", (*app).systemCommand},
	{"policy", (*app).policyCommand},
	{"network", (*app).networkCommand},
	{"secret", (*app).secretCommand},
	{"task", (*app).taskCommand},
	{"loop", (*app).loopCommand},
	{"ralph", (*app).ralphCommand},
	{"flow", (*app).flowCommand},
	{"runs", (*app).runsCommand},
	{"doctor", (*app).doctorCommand},
	{"version", (*app).versionCommand},
	{"completion", (*app).completionCommand},
}

// root builds the tree of commands for a line of words. If the first word names a command, the
// others are left out: every command would pay for the flags of all.
func (a *app) root(args []string) *cobra.Command {
	root := &cobra.Command{
		Use:   strings.Fields(a.Command)[0],
		Short: "A plain shelter for AI coding agents",
		Long:  "Bothy gives an agent, or any program, a whole machine of its own, and nothing else:\nits own kernel, its own file system, your project directory, no way out.",
		Args:  cobra.ArbitraryArgs, // see help
		PersistentPreRunE: func(cmd *cobra.Command, args []string) (err error) {
			if cmd.Name() == cobra.ShellCompRequestCmd {
				return nil
			}
			if err := refuseEmpty(cmd, args); err != nil {
				return err
			}
			a.settings, err = settings.Load()
			return err
		},
		SilenceErrors: true, SilenceUsage: true,
	}
	if a.Command != root.Name() {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: a.Command}
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.SetFlagErrorFunc(a.badFlag)
	root.SetHelpFunc(a.helpOf(root.HelpFunc()))
	root.SetHelpCommand(a.helpCommand())
	for _, c := range commands {
		if len(args) > 0 && args[0] == c.name {
			root.AddCommand(c.make(a))
			a.finish(root)
			return root
		}
	}
	for _, c := range commands {
		root.AddCommand(c.make(a))
	}
	a.finish(root)
	return root
}

// dockerFingers understands "run -it", which docker users type from habit although -t names a
// template here. Completion understands it, too. It also maps --version and -v to the version
// command.
func dockerFingers(args []string) []string {
	if len(args) == 1 && (args[0] == "--version" || args[0] == "-v") {
		return []string{"version"}
	}
	if len(args) > 0 && args[0] == cobra.ShellCompRequestCmd {
		return append(args[:1:1], dockerFingers(args[1:])...)
	}
	if len(args) > 1 && args[0] == "run" {
		for i, arg := range args {
			if arg == "--" {
				break
			}
			if arg == "-it" || arg == "-ti" {
				args = slices.Clone(args)
				args[i] = "-i"
			}
		}
	}
	return args
}

// existing opens the state directory and finds a sandbox in it.
func (a *app) existing(ref string) (*engine.Engine, *spec.Sandbox, error) {
	e, err := a.engine()
	if err != nil {
		return nil, nil, err
	}
	sb, err := e.Find(ref)
	return e, sb, err
}

// engine opens the state directory.
func (a *app) engine() (*engine.Engine, error) {
	dir, err := store.Dir()
	if err != nil {
		return nil, err
	}
	s, err := store.Open(dir)
	if err != nil {
		return nil, err
	}
	e := &engine.Engine{
		Store: s, Version: program.Version(), Agents: provision.Agents(), Defaults: a.settings.Limits(), Prices: a.settings.Prices, StoreLimit: a.settings.StoreLimit,
		Progress:   func(s string) { a.Note("%s", s) },
		Unenforced: a.warnLimit, Passphrase: a.passphrase,
	}
	if a.claims != nil {
		e.Claims = func() (map[string]string, error) { return a.claims(e) }
	}
	snapshots(e).Attach()
	return e, nil
}

// snapshots returns the snapshots of an engine's sandboxes.
func snapshots(e *engine.Engine) *snapshot.Snapshots { return snapshot.New(e) }

// paths returns the guard for paths that a person names. It knows the directories that sandboxes
// write to.
func (a *app) paths() (*hostpath.Guard, error) {
	if a.guard != nil {
		return a.guard, nil
	}
	e, err := a.engine()
	if err == nil {
		a.guard, err = e.Paths()
	}
	return a.guard, err
}

// notOpened wraps an error about a path that a person names: op is the action that failed. A refusal
// keeps its own class.
func notOpened(class error, op string, err error) *spec.Error {
	if errors.Is(err, spec.ErrDenied) {
		class = nil
	}
	return &spec.Error{Class: class, Op: op, Err: err}
}

// openNamed opens a file for reading that a person names.
func (a *app) openNamed(path string) (*os.File, error) {
	g, err := a.paths()
	if err != nil {
		return nil, err
	}
	return g.Open(path)
}

// readFile reads a regular file that a person names, of at most so many bytes.
func (a *app) readFile(path string, most int64) ([]byte, error) {
	g, err := a.paths()
	if err != nil {
		return nil, err
	}
	return g.ReadFile(path, most)
}

// rules returns the rules that workspaces are judged by.
func (a *app) rules(e *engine.Engine, force bool) (workspace.Rules, error) {
	home, err := store.Home()
	if err != nil {
		home = ""
	}
	g, err := e.Paths()
	return workspace.Rules{Home: home, State: e.Store.Path(), Force: force, Paths: g}, err
}

// exactly returns a check for the number of arguments; its error names the missing ones.
func exactly(n int, what string) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return spec.Errorf(spec.ErrUsage, "%s needs %s", cmd.CommandPath(), what).WithHint("usage: %s", cmd.UseLine())
		}
		return nil
	}
}

func atMost(n int, what string) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return spec.Errorf(spec.ErrUsage, "%s takes %s at most", cmd.CommandPath(), what).WithHint("usage: %s", cmd.UseLine())
		}
		return nil
	}
}

func atLeast(n int, what string) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < n {
			return spec.Errorf(spec.ErrUsage, "%s needs %s", cmd.CommandPath(), what).WithHint("usage: %s", cmd.UseLine())
		}
		return nil
	}
}
