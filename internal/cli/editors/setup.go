package editors

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/sshsetup"
)

// Setup returns the command setup and its subcommands.
func Setup(a *cmdline.App) *cobra.Command {
	c := &cobra.Command{Use: "setup", Short: "Let other programs on this host find sandboxes"}
	c.AddCommand(setupSSH(a))
	return c
}

func setupSSH(a *cmdline.App) *cobra.Command {
	remove := false
	c := &cobra.Command{
		Use:   "ssh [--remove]",
		Short: "Let SSH clients and editors reach sandboxes as NAME.bothy",
		Long: `Writes SSH configuration for hosts called NAME.bothy, and includes it at the top of
~/.ssh/config. After that ssh, scp, sftp, rsync and editors reach each sandbox by
its name. A second call changes nothing. Call it again if bothy or BOTHY_HOME moves.

It changes only a plain file in a plain directory of yours. If another program keeps
~/.ssh/config, it prints the line to add.`,
		Example: `  bothy setup ssh
  ssh shell-app.bothy
  bothy setup ssh --remove`,
		Args: cmdline.Exactly(0, "no arguments"),
		RunE: a.OnEngine(func(_ *cobra.Command, _ []string, e *engine.Engine) error {
			s, err := sshsetup.For(e)
			if err != nil {
				return err
			}
			do, line := s.Apply, "ssh NAME%s reaches a sandbox; %s includes the configuration"
			if remove {
				do, line = s.Remove, "NAME%s means nothing to SSH clients any more; %s does not include the configuration"
			}
			r, err := do()
			if err != nil {
				return err
			}
			if r.Note != "" && !remove {
				a.Note("%s", r.Note)
			}
			return a.Answer(r, fmt.Sprintf(line, ".bothy", r.Config))
		}),
	}
	c.Flags().BoolVar(&remove, "remove", false, "undo it; the host key stays")
	return a.JSONFlag(c)
}
