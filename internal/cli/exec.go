package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/headless"
	"github.com/bothy-dev/bothy/internal/provision"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

func (a *app) execCommand() *cobra.Command {
	var (
		interactive, tty, detached bool
		env, envFiles              []string
		workdir, user, keys        string
		timeout                    time.Duration
		statusFD                   int
		noSetUp, raw, create       bool
	)
	c := &cobra.Command{
		Use:   "exec [flags] SANDBOX COMMAND [ARG...]",
		Short: "Run a command in a sandbox, starting it if it is stopped",
		Example: `  bothy exec shell-app git status
  bothy exec -it shell-app bash
  tar c . | bothy exec -i shell-app tar x -C /opt
  bothy exec --timeout 10m shell-app make test     ends with 124 if that takes longer
  bothy exec --create check make test              in a new sandbox, the first time`,
		Annotations:       map[string]string{cmdline.PassesOn: cmdline.BehindFirst},
		Args:              cmdline.AtLeast(2, "a sandbox and a command"),
		ValidArgsFunction: a.completeExec,
		RunE: func(cmd *cobra.Command, args []string) error {
			if tty && !raw && (!term.IsTerminal(a.In) || !term.IsTerminal(a.Out)) {
				return spec.Errorf(spec.ErrUsage, "standard input and output are not a terminal").
					WithHint("leave out -t; a program that drives a terminal inside uses --raw")
			}
			if (tty || raw) && detached {
				return spec.Errorf(spec.ErrUsage, "--tty and --detach exclude each other")
			}
			if err := a.OpenStatus(statusFD); err != nil {
				return err
			}
			if cmd.Flags().Changed("timeout") && timeout <= 0 {
				return spec.Errorf(spec.ErrUsage, "--timeout %s is not a time that a command could take", timeout)
			}
			detach, err := a.detachKeysOf(keys)
			if err != nil {
				return err
			}
			if raw && keys == "" {
				detach = nil // each key is for the program
			}
			vars, err := a.Environment(env, envFiles)
			if err != nil {
				return err
			}
			e, err := a.Engine()
			if err != nil {
				return err
			}
			words := args[1:]
			if len(words) > 1 && words[0] == "--" { // accepted because run needs it
				words = words[1:]
			}
			q := wire.Ask{Op: wire.OpExec, Detached: detached, Command: wire.Command{
				Args: words, Env: vars, Dir: workdir, User: user, TTY: tty || raw, Timeout: spec.Duration(timeout),
			}}
			in, err := a.enterSandbox(cmd, e, args[0], &q.Command, entry{create: create, noSetUp: noSetUp})
			if err != nil {
				return err
			}
			defer in.Close()
			if detached {
				conn, _, err := in.Ask(cmd.Context(), q)
				if err != nil {
					return err
				}
				return conn.Close()
			}
			return a.converse(cmd.Context(), q, session{Session: in, keys: detach, noStdin: !interactive && !tty, raw: raw})
		},
	}
	c.Flags().SetInterspersed(false) // flags after the sandbox belong to the command
	fs := c.Flags()
	fs.BoolVarP(&interactive, "interactive", "i", false, "connect standard input")
	fs.BoolVarP(&tty, "tty", "t", false, "use a terminal inside")
	fs.BoolVar(&raw, "raw", false, "like -t, for a program that drives the terminal: nothing is added to its output, no key detaches, and pipes will do")
	fs.BoolVar(&create, "create", false, "create a missing sandbox: a shell in the current directory")
	fs.BoolVarP(&detached, "detach", "d", false, "run in the background")
	fs.StringArrayVarP(&env, "env", "e", nil, "set KEY=VALUE, or pass KEY on from your environment")
	fs.StringArrayVar(&envFiles, "env-file", nil, "read KEY=VALUE lines from a file")
	fs.StringVarP(&workdir, "workdir", "w", "", "directory to run in (default the first workspace)")
	fs.StringVarP(&user, "user", "u", "", "user inside: NAME|UID[:GROUP|GID]")
	fs.DurationVar(&timeout, "timeout", 0, "end the command with all that it has started after this time, e.g. 90s: SIGTERM, then SIGKILL; exit code 124")
	fs.IntVar(&statusFD, "status-fd", console.NoStatus, "write Bothy's own messages to this descriptor, as lines of JSON")
	fs.BoolVar(&noSetUp, "no-setup", false, "run the command at once, without the commands of devcontainer.json that are due")
	fs.StringVar(&keys, "detach-keys", "", `keys that detach (default "ctrl-\,ctrl-\")`)
	cmdline.CompleteFlag(c, "env-file", cmdline.FileNames)
	cmdline.CompleteFlag(c, "workdir", cmdline.FileNames)
	return c
}

// entry says how exec enters a sandbox.
type entry struct{ create, noSetUp bool }

// enterSandbox starts a sandbox and runs the due parts of its set-up. With create, it first makes a missing one. A signal
// ends that, and is the command's result.
func (a *app) enterSandbox(cmd *cobra.Command, e *engine.Engine, name string, command *wire.Command, how entry) (headless.Session, error) {
	ctx, release := cmdline.Interruptible(cmd.Context())
	defer release()
	p := a.Provisioner(e)
	sb, err := e.Find(name)
	if how.create && errors.Is(err, spec.ErrNotFound) {
		req := spec.Request{Name: name, Agent: agent.Shell, Workspaces: []string{"."}}
		if err := checkFirst(p, req, command); err != nil {
			return headless.Session{}, err
		}
		if !how.noSetUp {
			return a.enterNew(ctx, cmd, p, req)
		}
		sb, _, err = p.Ensure(ctx, req)
	}
	if err != nil {
		return headless.Session{}, err
	}
	return p.Enter(ctx, sb, command, how.noSetUp)
}

// checkFirst refuses a command that could not run in the sandbox of a request, as far as that is known before the
// sandbox exists: a wrong command makes none.
func checkFirst(p *provision.Provisioner, req spec.Request, command *wire.Command) error {
	if err := headless.CheckCommand(command); err != nil {
		return err
	}
	req.User, req.Workdir, req.Env = command.User, command.Dir, command.Env
	_, err := p.Plan(req, true)
	return err
}

// enterNew makes a sandbox, starts it and runs its set-up.
func (a *app) enterNew(ctx context.Context, cmd *cobra.Command, p *provision.Provisioner, req spec.Request) (headless.Session, error) {
	f := &runFlags{wanted: provision.Wanted{Agent: req.Agent, Paths: req.Workspaces}}
	at, err := a.obtain(ctx, cmd, p, f, spec.Request{Name: req.Name})
	if err != nil {
		return headless.Session{}, err
	}
	return p.Start(ctx, at, false)
}
