package cli

import (
	_ "embed"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/spec"
)

// The scripts run "bothy __complete WORDS..." and hand its answer to the shell. They never evaluate
// the typed words or the answer.
var (
	//go:embed completion/bothy.bash
	bashScript string
	//go:embed completion/bothy.zsh
	zshScript string
	//go:embed completion/bothy.fish
	fishScript string
	//go:embed completion/bothy.ps1
	powershellScript string
)

func (a *app) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "completion bash|zsh|fish|powershell", Short: "Print a completion script for your shell",
		Example:   "  source <(bothy completion bash)\n  bothy completion fish > ~/.config/fish/completions/bothy.fish",
		Args:      cmdline.Exactly(1, "a shell: bash, zsh, fish or powershell"),
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		RunE: func(_ *cobra.Command, args []string) error {
			script := map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript, "powershell": powershellScript}[args[0]]
			if script == "" {
				return spec.Errorf(spec.ErrUsage, "no completion for the shell %q", args[0]).WithHint("there is one for bash, zsh, fish and powershell")
			}
			_, err := fmt.Fprint(a.Out, script)
			return err
		},
	}
}

func (a *app) helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Show how a command is used",
		ValidArgsFunction: cmdline.Typeable(func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			c, rest, _ := cmd.Root().Find(args)
			if len(rest) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return cmdline.Subcommands(c), cobra.ShellCompDirectiveNoFileComp
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, rest, _ := cmd.Root().Find(args)
			if len(rest) > 0 {
				return a.UnknownCommand(c, rest[0])
			}
			return c.Help()
		},
	}
}

// completeRun completes AGENT or SANDBOX, then PATHs, then a program's ARGS.
func (a *app) completeRun(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	names, _ := a.Names()
	e, err := a.Engine()
	if err != nil {
		return names, cobra.ShellCompDirectiveDefault
	}
	return append(names, cmdline.AgentNames(e.Agents)...), cobra.ShellCompDirectiveDefault
}

// completeCreate completes AGENT, then PATHs.
func (a *app) completeCreate(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	e, err := a.Engine()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return cmdline.AgentNames(e.Agents), cobra.ShellCompDirectiveNoFileComp
}

// completeExec completes SANDBOX. The command after it may name files that exist inside as well.
func (a *app) completeExec(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return a.SandboxNames(cmd, args, word)
}

// completeCp completes SANDBOX: or a file's name.
func (a *app) completeCp(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if _, _, inside := splitSandboxPath(word); inside {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, _ := a.Names()
	for i := range names {
		names[i] += ":"
	}
	return names, cobra.ShellCompDirectiveNoSpace // and files
}

// finish makes all commands below c propose only typeable words, and makes groups of commands accept
// no words but their commands' names.
func (a *app) finish(c *cobra.Command) {
	if c.ValidArgsFunction != nil {
		c.ValidArgsFunction = cmdline.Typeable(c.ValidArgsFunction)
	}
	if c.HasSubCommands() && c.Args == nil {
		c.Args = func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return a.UnknownCommand(cmd, args[0])
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		a.finish(sub)
	}
}
