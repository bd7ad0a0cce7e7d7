package cli

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/term"
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
		Args:      exactly(1, "a shell: bash, zsh, fish or powershell"),
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
		ValidArgsFunction: typeable(func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			c, rest, _ := cmd.Root().Find(args)
			if len(rest) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return subcommands(c), cobra.ShellCompDirectiveNoFileComp
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, rest, _ := cmd.Root().Find(args)
			if len(rest) > 0 {
				return a.unknownCommand(c, rest[0])
			}
			return c.Help()
		},
	}
}

// sandboxNames completes names of sandboxes that are not yet among the arguments.
func (a *app) sandboxNames(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	names, err := a.names()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(args, name) }), cobra.ShellCompDirectiveNoFileComp
}

// templateNames completes the names of templates.
func (a *app) templateNames(_ *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	e, err := a.engine()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	list, err := e.Templates().Shelf().List()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	names := []string{spec.TemplateHost}
	for _, t := range list {
		names = append(names, t.Name)
	}
	if images, err := e.Images().Shelf().List(); err == nil {
		for _, i := range images {
			if i.Name != "" {
				names = append(names, imageName(i))
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// oneSandbox completes the name of the only argument.
func (a *app) oneSandbox(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.sandboxNames(cmd, args, word)
}

// names returns the names of all sandboxes. A broken sandbox goes by the name of its directory,
// which may be any text, so names skips invalid names.
func (a *app) names() ([]string, error) {
	e, err := a.engine()
	if err != nil {
		return nil, err
	}
	list, err := e.Store.List()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, sb := range list {
		if spec.CheckName(sb.Name) == nil {
			names = append(names, sb.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// completeRun completes AGENT or SANDBOX, then PATHs, then a program's ARGS.
func (a *app) completeRun(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	names, _ := a.names()
	e, err := a.engine()
	if err != nil {
		return names, cobra.ShellCompDirectiveDefault
	}
	return append(names, agentNames(e.Agents)...), cobra.ShellCompDirectiveDefault
}

// completeCreate completes AGENT, then PATHs.
func (a *app) completeCreate(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	e, err := a.engine()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return agentNames(e.Agents), cobra.ShellCompDirectiveNoFileComp
}

// completeExec completes SANDBOX. The command after it may name files that exist inside as well.
func (a *app) completeExec(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return a.sandboxNames(cmd, args, word)
}

// completeCp completes SANDBOX: or a file's name.
func (a *app) completeCp(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if _, _, inside := splitSandboxPath(word); inside {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, _ := a.names()
	for i := range names {
		names[i] += ":"
	}
	return names, cobra.ShellCompDirectiveNoSpace // and files
}

// fileNames completes names of files.
func fileNames(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// oneOf returns a completion of fixed words.
func oneOf(words ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}

// subcommands completes the name of a command below cmd.
func subcommands(cmd *cobra.Command) (list []string) {
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			list = append(list, cobra.CompletionWithDesc(sub.Name(), sub.Short))
		}
	}
	return list
}

// completeFlag sets the completion of a flag's value.
func completeFlag(c *cobra.Command, name string, complete cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(name, typeable(complete)); err != nil {
		panic(err)
	}
}

// finish makes all commands below c propose only typeable words, and makes groups of commands accept
// no words but their commands' names.
func (a *app) finish(c *cobra.Command) {
	if c.ValidArgsFunction != nil {
		c.ValidArgsFunction = typeable(c.ValidArgsFunction)
	}
	if c.HasSubCommands() && c.Args == nil {
		c.Args = func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return a.unknownCommand(cmd, args[0])
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		a.finish(sub)
	}
}

// typeable keeps the candidates that begin with the word and can be typed. Candidates from the disk
// may hold any text.
func typeable(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) (left []string, how cobra.ShellCompDirective) {
		list, how := complete(cmd, args, word)
		for _, candidate := range list {
			value, text, described := strings.Cut(candidate, "\t")
			if !strings.HasPrefix(value, word) || term.Sanitize(value) != value {
				continue
			}
			if described {
				value = cobra.CompletionWithDesc(value, term.Sanitize(text))
			}
			left = append(left, value)
		}
		if len(left) == 0 {
			how &^= cobra.ShellCompDirectiveNoSpace // files that the shell proposes instead are whole words
		}
		return left, how
	}
}
