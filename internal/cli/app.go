// Package cli is the command line: one file per command, from words to calls of the engine and from
// results to text. It decides nothing.
//
// The answer goes to standard output, everything else to standard error. Errors are lower-case
// clauses after "bothy: error:", advice follows after "bothy: hint:". The CLI asks questions only on
// a terminal.
package cli

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/agents"
	"github.com/bothy-dev/bothy/internal/cli/checkpoints"
	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/cli/editors"
	"github.com/bothy-dev/bothy/internal/cli/images"
	"github.com/bothy-dev/bothy/internal/cli/network"
	"github.com/bothy-dev/bothy/internal/cli/reviews"
	"github.com/bothy-dev/bothy/internal/cli/runs"
	"github.com/bothy-dev/bothy/internal/cli/secrets"
	"github.com/bothy-dev/bothy/internal/cli/serving"
	"github.com/bothy-dev/bothy/internal/cli/system"
	"github.com/bothy-dev/bothy/internal/cli/tasks"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/internal/settings"
	"github.com/bothy-dev/bothy/spec"
)

// app is one invocation of the command line.
type app struct{ *cmdline.App }

// newApp returns an invocation with everything that commands of other packages bring.
func newApp(c *console.Console) *app {
	return &app{&cmdline.App{Console: c, Claims: runstate.ClaimIDs}}
}

// Main runs a command line and returns its exit code.
func Main(args []string) int {
	a := newApp(&console.Console{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Command: "bothy"})
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
	return a.Report(a.Execute(context.Background(), a.rootCommand(args), args))
}

//go:generate go test . -run TestReferencePages -update

// commandIn makes a command that is in a package of its own.
func commandIn(make func(*cmdline.App) *cobra.Command) func(*app) *cobra.Command {
	return func(a *app) *cobra.Command { return make(a.App) }
}

// commands lists all commands in the order of the help.
var commands = []struct {
	name string
	make func(*app) *cobra.Command
}{
	{"run", (*app).runCommand},
	{"create", (*app).createCommand},
	{"exec", (*app).execCommand},
	{"acp", (*app).acpCommand},
	{"ls", (*app).lsCommand},
	{"inspect", (*app).inspectCommand},
	{"stop", (*app).stopCommand},
	{"rm", (*app).rmCommand},
	{"prune", commandIn(system.Prune)},
	{"reset", (*app).resetCommand},
	{"diff", commandIn(reviews.Diff)},
	{"apply", commandIn(reviews.Apply)},
	{"discard", commandIn(reviews.Discard)},
	{"checkpoint", commandIn(checkpoints.Checkpoint)},
	{"fork", commandIn(checkpoints.Fork)},
	{"fetch", commandIn(reviews.Fetch)},
	{"cp", (*app).cpCommand},
	{"save", commandIn(images.Save)},
	{"template", commandIn(images.Template)},
	{"ports", (*app).portsCommand},
	{"logs", (*app).logsCommand},
	{"top", (*app).topCommand},
	{"cost", (*app).costCommand},
	{"agent", commandIn(agents.Agent)},
	{"system", commandIn(system.System)},
	{"policy", commandIn(network.Policy)},
	{"network", commandIn(network.Network)},
	{"secret", commandIn(secrets.Secret)},
	{"task", commandIn(tasks.Task)},
	{"loop", commandIn(runs.Loop)},
	{"ralph", commandIn(runs.Ralph)},
	{"flow", commandIn(runs.Flow)},
	{"runs", commandIn(runs.Runs)},
	{"setup", commandIn(editors.Setup)},
	{"open", commandIn(editors.Open)},
	{"ssh-proxy", commandIn(editors.SSHProxy)},
	{"events", commandIn(serving.Events)},
	{"serve", commandIn(serving.Serve)},
	{"token", commandIn(serving.Token)},
	{"doctor", commandIn(system.Doctor)},
	{"version", commandIn(system.Version)},
	{"completion", (*app).completionCommand},
}

// rootCommand builds the tree of commands for a line of words. If the first word names a command, the
// others are left out: every command would pay for the flags of all.
func (a *app) rootCommand(args []string) *cobra.Command {
	root := &cobra.Command{
		Use:   strings.Fields(a.Command)[0],
		Short: "A plain shelter for AI coding agents",
		Long:  "Bothy gives an agent, or any program, a whole machine of its own, and nothing else:\nits own kernel, its own file system, your project directory, no way out.",
		Args:  cobra.ArbitraryArgs, // see help
		PersistentPreRunE: func(cmd *cobra.Command, args []string) (err error) {
			if cmd.Name() == cobra.ShellCompRequestCmd {
				return nil
			}
			if err := cmdline.RefuseEmpty(cmd, args); err != nil {
				return err
			}
			a.Settings, err = settings.Load(func(text string) { a.Note("%s", text) })
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
	root.SetFlagErrorFunc(a.BadFlag)
	root.SetHelpFunc(a.HelpOf(root.HelpFunc()))
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
