package cli

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/cli/command"
	"github.com/bothy-dev/bothy/spec"
)

// The scripts ask "bothy __complete WORDS..." and hand the shell its answer.
// They evaluate nothing of what was typed or answered.
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

func (a *app) completionCommand() *command.Command {
	return &command.Command{
		Use: "completion bash|zsh|fish|powershell", Short: "Print a completion script for your shell",
		Example:   "  source <(bothy completion bash)\n  bothy completion fish > ~/.config/fish/completions/bothy.fish",
		Args:      exactly(1, "a shell: bash, zsh, fish or powershell"),
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		RunE: func(_ *command.Command, args []string) error {
			script := map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript, "powershell": powershellScript}[args[0]]
			if script == "" {
				return spec.Errorf(spec.ErrUsage, "no completion for the shell %q", args[0]).WithHint("there is one for bash, zsh, fish and powershell")
			}
			_, err := fmt.Fprint(a.stdout, script)
			return err
		},
	}
}

func (a *app) helpCommand() *command.Command {
	return &command.Command{
		Use: "help [COMMAND]", Short: "Show how a command is used",
		Complete: func(cmd *command.Command, args []string, _ string) ([]string, command.Directive) {
			c, rest := cmd.Root().Find(args)
			if len(rest) > 0 {
				return nil, command.NoFiles
			}
			return command.Commands(c), command.NoFiles
		},
		RunE: func(cmd *command.Command, args []string) error {
			c, rest := cmd.Root().Find(args)
			if len(rest) > 0 {
				return spec.Errorf(spec.ErrUsage, "no command %q", strings.Join(args, " ")).WithHint("%s --help lists the commands", a.command)
			}
			return c.Help()
		},
	}
}

// sandboxNames completes a sandbox's name that is not among the arguments yet.
func (a *app) sandboxNames(_ *command.Command, args []string, _ string) ([]string, command.Directive) {
	names, err := a.names()
	if err != nil {
		return nil, command.Failed
	}
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(args, name) }), command.NoFiles
}

// templateNames completes the names of templates.
func (a *app) templateNames(_ *command.Command, _ []string, _ string) ([]string, command.Directive) {
	e, err := a.engine()
	if err != nil {
		return nil, command.Failed
	}
	list, err := e.Templates().List()
	if err != nil {
		return nil, command.Failed
	}
	names := []string{spec.TemplateHost}
	for _, t := range list {
		names = append(names, t.Name)
	}
	if images, err := e.Images().List(); err == nil {
		for _, i := range images {
			if i.Name != "" {
				names = append(names, imageName(i))
			}
		}
	}
	return names, command.NoFiles
}

// oneSandbox completes the name of the only argument.
func (a *app) oneSandbox(cmd *command.Command, args []string, word string) ([]string, command.Directive) {
	if len(args) > 0 {
		return nil, command.NoFiles
	}
	return a.sandboxNames(cmd, args, word)
}

// names are the names of all sandboxes. One whose files are broken is called
// as its directory is, which may be anything.
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
func (a *app) completeRun(cmd *command.Command, args []string, _ string) ([]string, command.Directive) {
	if len(args) > 0 || cmd.ArgsLenAtDash() >= 0 {
		return nil, command.Files
	}
	names, _ := a.names()
	e, err := a.engine()
	if err != nil {
		return names, command.Files
	}
	return append(names, agentNames(e)...), command.Files
}

// completeCreate completes AGENT, then PATHs.
func (a *app) completeCreate(_ *command.Command, args []string, _ string) ([]string, command.Directive) {
	if len(args) > 0 {
		return nil, command.Files
	}
	e, err := a.engine()
	if err != nil {
		return nil, command.NoFiles
	}
	return agentNames(e), command.NoFiles
}

// completeExec completes SANDBOX. The command behind it may well name files
// that are the same inside.
func (a *app) completeExec(cmd *command.Command, args []string, word string) ([]string, command.Directive) {
	if len(args) > 0 {
		return nil, command.Files
	}
	return a.sandboxNames(cmd, args, word)
}

// completeCp completes SANDBOX: or a file's name.
func (a *app) completeCp(_ *command.Command, args []string, word string) ([]string, command.Directive) {
	if len(args) > 1 {
		return nil, command.NoFiles
	}
	if _, _, inside := splitSandboxPath(word); inside {
		return nil, command.NoFiles
	}
	names, _ := a.names()
	for i := range names {
		names[i] += ":"
	}
	return names, command.NoSpace // and files
}
