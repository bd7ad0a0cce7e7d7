package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/headless"
	"github.com/bothy-dev/bothy/internal/provision"
	"github.com/bothy-dev/bothy/internal/reconfigure"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// runFlags are the flags of a run.
type runFlags struct {
	cmdline.CreateFlags
	remove, detached bool
	tty, interactive bool
	detachKeys       string
	command          []string
	agent            string // as the user named it
	paths            []string
	existing         *spec.Sandbox // named by the user
}

func (a *app) runCommand() *cobra.Command {
	f := &runFlags{}
	c := &cobra.Command{
		Use: "run [flags] [AGENT] [PATH[:ro]]... [-- ARGS...]", Annotations: map[string]string{cmdline.PassesOn: cmdline.BehindDash}, SuggestFor: []string{"start", "attach", "up", "resume"},
		Short: "Create a sandbox if needed, start it, and attach your terminal to it",
		Long: `Runs an agent in a sandbox of its own and attaches your terminal to it. The same
agent in the same directory is the same sandbox: programs that were installed in it
are still there. Without PATH the current directory is shared.

AGENT is a coding agent such as claude, "shell" for your own shell, or a program
by its path. ARGS that begin with a flag, or with a subcommand that the agent's
description names, are added to the agent's command, others are run instead of it.`,
		Example: `  bothy run claude .                     Claude Code in a sandbox, in this project
  bothy run claude . -- -p "fix it"      the same without a terminal of its own
  bothy run --mock script.yaml claude .  the same, with a script in the place of its model
  bothy run shell .                      a shell
  bothy run --rm shell . -- make test    one command in a fresh sandbox
  bothy run shell . ~/data:ro            another directory, read-only
  bothy run --name NAME                  back to a sandbox by its name`,
		ValidArgsFunction: a.completeRun,
		RunE: a.OnEngine(func(cmd *cobra.Command, args []string, e *engine.Engine) error {
			if err := f.parse(e, cmd, args); err != nil {
				return err
			}
			return a.run(cmd, e, f)
		}),
	}
	f.Add(a.App, c)
	f.Budget.Add(c)
	fs := c.Flags()
	fs.BoolVar(&f.remove, "rm", false, "use a fresh sandbox and remove it afterwards")
	fs.BoolVarP(&f.detached, "detach", "d", false, "run in the background and print the sandbox's name")
	fs.BoolVarP(&f.interactive, "interactive", "i", false, "accepted for docker's sake: standard input is always connected")
	fs.BoolVar(&f.tty, "tty", false, "use a terminal inside (default: if standard input and output are terminals)")
	fs.StringVar(&f.detachKeys, "detach-keys", "", `keys that detach (default "ctrl-\,ctrl-\")`)
	cmdline.CompleteFlag(c, "name", a.SandboxNames)
	cmdline.CompleteFlag(c, "secret", a.SecretNames)
	return c
}

// parse splits the arguments into AGENT, PATHs and ARGS.
func (f *runFlags) parse(e *engine.Engine, cmd *cobra.Command, args []string) error {
	before := args
	if n := cmd.ArgsLenAtDash(); n >= 0 {
		before, f.command = args[:n], args[n:]
	}
	f.agent = agent.Shell
	if f.Name != "" && len(before) == 0 {
		if sb, err := e.Find(f.Name); err == nil {
			f.existing = sb
			return nil
		}
	}
	if len(before) > 0 {
		first := before[0]
		_, err := provision.FindAgent(e, first)
		switch {
		case err == nil:
			f.agent, before = first, before[1:]
		case errors.Is(err, spec.ErrConflict) || errors.Is(err, spec.ErrUsage):
			return err
		case strings.ContainsAny(first[:min(1, len(first))], "./~"):
			// A path without an agent means the shell.
			if err := cmdline.Absent(first); err != nil && len(before) > 1 {
				return err
			}
		case !errors.Is(err, spec.ErrNotFound):
			return err
		default:
			notAgent := err
			sb, err := e.Find(first)
			if err != nil {
				hint := fmt.Sprintf("%s; for a shell: %s shell %s", spec.Hint(notAgent), cmd.CommandPath(), strings.Join(before, " "))
				if like := cmdline.AgentsLike(first); len(like) > 0 {
					hint = fmt.Sprintf("did you mean %s? %s", strings.Join(like, " or "), hint)
				}
				return spec.Errorf(spec.ErrNotFound, "no agent or sandbox named %q", first).WithHint("%s", hint)
			}
			if len(before) > 1 {
				return spec.Errorf(spec.ErrUsage, "%s exists: its directories were fixed when it was created", first)
			}
			f.existing = sb
			return nil
		}
	}
	f.paths = before
	if len(f.paths) == 0 {
		f.paths = []string{"."}
	}
	if f.remove && f.detached {
		return spec.Errorf(spec.ErrUsage, "--rm and --detach exclude each other")
	}
	return nil
}

// commandMeant adds a hint to the error of a missing path: a plain word after the first path may be
// a command.
func commandMeant(cmd *cobra.Command, agent string, paths []string, err error) error {
	words := append([]string{agent}, paths...)
	if i := cmdline.CommandAt(words); i > 0 {
		line := cmdline.ShellLine(slices.Concat(words[:i], []string{"--"}, words[i:]))
		return (&spec.Error{Err: err}).WithHint("if %s is a command, write it after --: %s %s", words[i], cmd.CommandPath(), line)
	}
	return err
}

// checkRemove refuses --rm for a sandbox that existed before, or whose changes the user could not look at
// before the removal.
func (f *runFlags) checkRemove() error {
	switch {
	case f.remove && f.existing != nil:
		return spec.Errorf(spec.ErrConflict, "--rm would remove sandbox %s, which exists, with its home and all that was installed in it", f.existing.Name).
			WithHint("leave --rm out; for a fresh sandbox name an agent: bothy run --rm %s", f.existing.Agent)
	case f.remove && f.Mode == spec.WorkspaceReview:
		return spec.Errorf(spec.ErrUsage, "--rm would throw away what waits for a review").
			WithHint("leave --rm out, then: bothy diff, bothy apply, bothy rm")
	case f.remove && f.Mode == spec.WorkspaceClone:
		return spec.Errorf(spec.ErrUsage, "--rm would throw the clone away, with all commits in it").
			WithHint("leave --rm out, then: bothy fetch, bothy rm")
	}
	return nil
}

// run runs an agent or a program in a sandbox.
func (a *app) run(cmd *cobra.Command, e *engine.Engine, f *runFlags) error {
	if err := f.checkRemove(); err != nil {
		return err
	}
	ctx := cmd.Context()
	keys, err := a.detachKeysOf(f.detachKeys)
	if err != nil {
		return err
	}
	if f.remove {
		keys = nil // if it continued detached, the sandbox could not be removed at its end
	}
	ctx, release := cmdline.Interruptible(ctx)
	defer release()
	at, err := a.findTarget(ctx, cmd, e, f)
	if err != nil {
		return err
	}
	sb := at.Sandbox
	if f.remove {
		defer func() {
			rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
			defer cancel()
			if err := e.Remove(rctx, sb, true); err != nil {
				a.Note("the sandbox was not removed: %v", err)
			}
		}()
	}
	conn, err := a.readySandbox(ctx, e, f, at)
	if err != nil {
		return err
	}
	defer func() {
		if conn != nil {
			conn.Close()
		}
	}()
	if err := reconfigure.CheckMock(e, sb, at.mock); err != nil { // another command was faster, with another script
		return err
	}
	if sb.Docker && at.IsNew() {
		if err := a.provideDocker(ctx, e, sb, !f.detached); err != nil {
			return err
		}
	}
	if sb.Devcontainer != nil {
		if err := a.SetUp(ctx, e, sb, !f.detached); err != nil {
			return err
		}
		conn.Close() // it may belong to a start that is over
		conn = nil
	}
	q := wire.Ask{Op: wire.OpExec, Agent: len(f.command) == 0, Detached: f.detached, Command: wire.Command{
		Args: at.agent.Command(f.command), TTY: a.wantsTTY(f), Env: at.env, Caller: wire.Caller{Named: at.named},
	}}
	if !at.Created {
		q.Command.Dir, q.Command.User = f.Workdir, f.User
	}
	in := headless.Session{Engine: e, Sandbox: sb, Conn: conn}
	if f.detached {
		return a.runDetached(ctx, in, q)
	}
	err = a.converse(ctx, q, session{Session: in, keys: keys, reattach: q.Agent && q.Command.TTY, rings: q.Agent && sb.Agent != agent.Shell})
	return at.agent.ExplainMissing(err, q.Command.Args, sb)
}

// readySandbox lends a sandbox its secrets and starts it. If that fails for a sandbox that was just
// created, it is removed, unless another command waits for it.
func (a *app) readySandbox(ctx context.Context, e *engine.Engine, f *runFlags, at runTarget) (conn *unixconn.Conn, err error) {
	defer func() {
		switch {
		case err == nil:
			err = e.Made(at.Sandbox)
		case at.Created && !f.remove:
			err = console.Join([]error{err, e.TakeBack(at.Sandbox)})
		default:
			e.Unmade(at.Sandbox)
		}
		if err != nil && conn != nil {
			conn.Close()
			conn = nil
		}
	}()
	if !f.Quiet {
		a.WarnShared(e, at.Sandbox)
	}
	err = a.Provisioner(e).Lend(ctx, at.agent, at.Sandbox, at.loans, at.IsNew())
	if err == nil {
		conn, err = e.Connect(ctx, at.Sandbox)
	}
	if ctx.Err() != nil {
		return conn, context.Cause(ctx)
	}
	return conn, err
}

func (a *app) wantsTTY(f *runFlags) bool {
	if f.detached {
		return len(f.command) == 0 // an agent in the background has a terminal to attach to later
	}
	return f.tty || term.IsTerminal(a.In) && term.IsTerminal(a.Out)
}

func (a *app) runDetached(ctx context.Context, in headless.Session, q wire.Ask) error {
	conn, _, err := in.Ask(ctx, q)
	if err != nil {
		return err
	}
	defer conn.Close()
	fmt.Fprintln(a.Out, in.Sandbox.Name)
	return nil
}

// detachKeysOf parses the detach keys of the flag, or else of the settings.
func (a *app) detachKeysOf(flag string) ([]byte, error) {
	if flag == "" {
		flag = a.Settings.DetachKeys()
	}
	keys, err := term.ParseKeys(flag)
	if err != nil {
		return nil, spec.Errorf(spec.ErrUsage, "--detach-keys: %w", err)
	}
	return keys, nil
}
