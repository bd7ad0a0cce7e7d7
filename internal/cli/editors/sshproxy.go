// Package editors has the commands by which editors and other SSH clients reach sandboxes.
package editors

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/sshserver"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// SSHProxy returns the command ssh-proxy.
func SSHProxy(a *cmdline.App) *cobra.Command {
	return &cobra.Command{
		Use:   "ssh-proxy SANDBOX",
		Short: "Serve an SSH client on standard input and output",
		Long: `Serves one SSH client on standard input and output: ssh starts it, as bothy setup ssh
arranges. SANDBOX may end in .bothy. A stopped sandbox is started for the first
program. The user name root is root inside. The user name bothy, and yours, are the
sandbox's own user; any other is refused.

Files are served, and connections made, by programs inside: forwarded connections are
the sandbox's own, and its rules apply. Forwarding to this host (-R), of the SSH agent,
of X11 and of sockets is refused.`,
		Example:           `  ssh -o ProxyCommand='bothy ssh-proxy %h' bothy@shell-app.bothy`,
		Args:              cmdline.Exactly(1, "a sandbox"),
		ValidArgsFunction: a.SandboxNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			if term.IsTerminal(a.In) || term.IsTerminal(a.Out) {
				return spec.Errorf(spec.ErrUsage, "ssh-proxy speaks with an SSH client, not with a terminal").
					WithHint("bothy setup ssh, then: ssh NAME.bothy")
			}
			e, err := a.Engine()
			if err != nil {
				return err
			}
			sb, err := sshserver.SandboxOf(e, args[0])
			if err != nil {
				return err
			}
			o, err := sshserver.OptionsFor(a.Provisioner(e), sb, func(text string) { a.Note("%s", text) })
			if err != nil {
				return err
			}
			ctx, release := cmdline.Interruptible(cmd.Context())
			defer release()
			return sshserver.Serve(ctx, streams{a.In, a.Out}, o)
		},
	}
}

// streams are standard input and output as one.
type streams struct{ in, out *os.File }

func (s streams) Read(p []byte) (int, error)  { return s.in.Read(p) }
func (s streams) Write(p []byte) (int, error) { return s.out.Write(p) }
func (s streams) Close() error                { return errors.Join(s.in.Close(), s.out.Close()) }
