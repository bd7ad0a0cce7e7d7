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
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/headless"
	"github.com/bothy-dev/bothy/internal/provision"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// runFlags are the flags of a run.
type runFlags struct {
	cmdline.CreateFlags
	remove, detached bool
	tty, interactive bool
	detachKeys       string
	command          []string
	wanted           provision.Wanted
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
	words := args
	if n := cmd.ArgsLenAtDash(); n >= 0 {
		words, f.command = args[:n], args[n:]
	}
	var err error
	f.wanted, err = provision.Interpret(e, f.Name, words)
	if unknown, ok := errors.AsType[provision.UnknownName](err); ok {
		return hintUnknown(cmd, unknown, words)
	}
	if err == nil && f.wanted.Sandbox == nil && f.remove && f.detached {
		err = spec.Errorf(spec.ErrUsage, "--rm and --detach exclude each other")
	}
	return err
}

// hintUnknown adds a hint to the error for a word that names neither an agent nor a sandbox.
func hintUnknown(cmd *cobra.Command, unknown provision.UnknownName, words []string) error {
	hint := fmt.Sprintf("%s; for a shell: %s shell %s", spec.Hint(unknown.NotAgent), cmd.CommandPath(), strings.Join(words, " "))
	if like := cmdline.AgentsLike(unknown.Word); len(like) > 0 {
		hint = fmt.Sprintf("did you mean %s? %s", strings.Join(like, " or "), hint)
	}
	return (&spec.Error{Class: spec.ErrNotFound, Err: unknown}).WithHint("%s", hint)
}

// hintCommand adds a hint to the error of a missing path: a plain word after the first path may be a command.
func (f *runFlags) hintCommand(cmd *cobra.Command, err error) error {
	if _, ok := errors.AsType[provision.PathError](err); !ok || !errors.Is(err, spec.ErrNotFound) {
		return err
	}
	words := append([]string{f.wanted.Agent}, f.wanted.Paths...)
	if i := cmdline.CommandAt(words); i > 0 {
		line := cmdline.ShellLine(slices.Concat(words[:i], []string{"--"}, words[i:]))
		return (&spec.Error{Err: err}).WithHint("if %s is a command, write it after --: %s %s", words[i], cmd.CommandPath(), line)
	}
	return err
}

// run runs an agent or a program in a sandbox.
func (a *app) run(cmd *cobra.Command, e *engine.Engine, f *runFlags) error {
	keys, err := a.detachKeysOf(f.detachKeys)
	if err != nil {
		return err
	}
	if f.remove {
		keys = nil // if it continued detached, the sandbox could not be removed at its end
	}
	ctx, release := cmdline.Interruptible(cmd.Context())
	defer release()
	req, err := f.Request(a.App, f.wanted.Agent, f.wanted.Paths)
	if err != nil {
		return err
	}
	req.Remove = f.remove
	p := a.Provisioner(e)
	at, err := a.obtain(ctx, cmd, p, f, req)
	if err != nil {
		return f.hintCommand(cmd, err)
	}
	if f.remove {
		defer a.removeAfter(ctx, e, at.Sandbox)
	}
	if !f.Quiet {
		a.WarnShared(e, at.Sandbox)
	}
	in, err := p.Start(ctx, at, !f.detached)
	if err != nil {
		return err
	}
	defer in.Close()
	q := wire.Ask{Op: wire.OpExec, Agent: len(f.command) == 0, Detached: f.detached, Command: wire.Command{
		Args: at.Agent.Command(f.command), TTY: a.wantsTTY(f), Env: req.Env, Caller: wire.Caller{Named: at.Named},
	}}
	if !at.Created {
		q.Command.Dir, q.Command.User = f.Workdir, f.User
	}
	if f.detached {
		return a.runDetached(ctx, in, q)
	}
	err = a.converse(ctx, q, session{Session: in, keys: keys, reattach: q.Agent && q.Command.TTY, rings: q.Agent && at.Sandbox.Agent != agent.Shell})
	return at.Agent.ExplainMissing(err, q.Command.Args, at.Sandbox)
}

// obtain finds or makes the sandbox to run in, and shows what a person should know about it.
func (a *app) obtain(ctx context.Context, cmd *cobra.Command, p *provision.Provisioner, f *runFlags, req spec.Request) (provision.Target, error) {
	pl, err := p.PlanRun(f.wanted, req)
	if err != nil {
		return provision.Target{}, err
	}
	a.ShowPlan(pl)
	at, err := p.Obtain(ctx, pl)
	if at.Created {
		a.AdviseGit(cmd, pl)
	}
	return at, err
}

// removeAfter removes the sandbox of one command, whatever became of the command.
func (a *app) removeAfter(ctx context.Context, e *engine.Engine, sb *spec.Sandbox) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if err := e.Remove(ctx, sb, true); err != nil {
		a.Note("the sandbox was not removed: %v", err)
	}
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
