package cli

import (
	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/spec"
)

func (a *app) completionCommand() *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use: "completion bash|zsh|fish|powershell", Short: "Print a completion script for your shell",
		Example:   "  source <(bothy completion bash)\n  bothy completion fish > ~/.config/fish/completions/bothy.fish",
		Args:      exactly(1, "a shell: bash, zsh, fish or powershell"),
		ValidArgs: shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.stdout, true)
			case "zsh":
				return root.GenZshCompletion(a.stdout)
			case "fish":
				return root.GenFishCompletion(a.stdout, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(a.stdout)
			}
			return spec.Errorf(spec.ErrUsage, "no completion for the shell %q", args[0]).WithHint("there is one for bash, zsh, fish and powershell")
		},
	}
}

func (a *app) helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Show how a command is used",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 && len(args) > 0 {
				return spec.Errorf(spec.ErrUsage, "no command %q", args[0]).WithHint("%s --help lists the commands", a.command)
			}
			c.InitDefaultHelpFlag()
			return c.Help()
		},
	}
}
