package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// shellAgent is the agent that is no agent: the user's own shell.
const shellAgent = "shell"

// runFlags are what a single run decides.
type runFlags struct {
	createFlags
	remove, detached bool
	tty, interactive bool
	detachKeys       string
	command          []string
	agent            string
	paths            []string
	existing         *spec.Sandbox
}

func (a *app) runCommand() *cobra.Command {
	f := &runFlags{}
	c := &cobra.Command{
		Use:   "run [flags] [AGENT] [PATH[:ro]]... [-- ARGS...]",
		Short: "Create a sandbox if needed, start it, and attach your terminal to it",
		Long: `Runs an agent in a sandbox of its own and attaches your terminal to it. The same
agent in the same directory is the same sandbox: what was installed in it is
still there. Without PATH the current directory is shared.

The agent of this version is "shell": your own shell, or, behind --, any program.`,
		Example: `  bothy run shell .                      a shell in a sandbox, in this project
  bothy run --rm shell . -- make test    one command in a fresh sandbox
  bothy run shell . ~/data:ro            another directory, read-only
  bothy run --name NAME                  back to a sandbox by its name`,
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := a.engine()
			if err != nil {
				return err
			}
			if err := f.parse(e, cmd, args); err != nil {
				return err
			}
			return a.run(cmd, e, f)
		},
	}
	fs := c.Flags()
	f.add(fs)
	fs.BoolVar(&f.remove, "rm", false, "use a fresh sandbox and remove it afterwards")
	fs.BoolVarP(&f.detached, "detach", "d", false, "run in the background and print the sandbox's name")
	fs.BoolVarP(&f.interactive, "interactive", "i", false, "accepted for docker's sake: standard input is always connected")
	fs.BoolVar(&f.tty, "tty", false, "use a terminal inside (default: if standard input and output are terminals)")
	fs.StringVar(&f.detachKeys, "detach-keys", "", `keys that detach (default "ctrl-\,ctrl-\")`)
	return c
}

// parse sorts AGENT, PATHs and ARGS.
func (f *runFlags) parse(e *engine.Engine, cmd *cobra.Command, args []string) error {
	before := args
	if n := cmd.ArgsLenAtDash(); n >= 0 {
		before, f.command = args[:n], args[n:]
	}
	f.agent = shellAgent
	if f.name != "" && len(before) == 0 {
		if sb, err := e.Find(f.name); err == nil {
			f.existing = sb
			return nil
		}
	}
	if len(before) > 0 {
		first := before[0]
		switch {
		case first == shellAgent:
			before = before[1:]
		case strings.ContainsAny(first[:min(1, len(first))], "./~"):
			// A path, and no agent named: the shell.
		default:
			sb, err := e.Find(first)
			if err != nil {
				return spec.Errorf(spec.ErrNotFound, "no agent or sandbox named %q", first).
					WithHint("the agent of this version is \"shell\": %s shell %s", cmd.CommandPath(), strings.Join(before, " "))
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

// run is the main job.
func (a *app) run(cmd *cobra.Command, e *engine.Engine, f *runFlags) error {
	ctx := cmd.Context()
	keys, err := a.detachKeysOf(f.detachKeys)
	if err != nil {
		return err
	}
	if f.remove {
		keys = nil // what nobody watches could not be removed at its end
	}
	sb, created, err := a.find(cmd, e, f)
	if err != nil {
		return err
	}
	if f.remove {
		defer func() {
			rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
			defer cancel()
			if err := e.Remove(rctx, sb, true); err != nil {
				a.note("the sandbox was not removed: %v", err)
			}
		}()
	}
	if err := a.startFirst(ctx, e, sb, created && !f.remove); err != nil {
		return err
	}
	a.warnLimits(e, sb)
	q := wire.Ask{Op: wire.OpExec, Agent: len(f.command) == 0, Detached: f.detached, Command: wire.Command{
		Args: shellCommand(f.command), TTY: a.wantsTTY(f),
	}}
	if q.Command.Env, err = environment(f.env, f.envFiles); err != nil {
		return err
	}
	if f.existing != nil || !created {
		q.Command.Dir, q.Command.User = f.workdir, f.user
	}
	if f.detached {
		return a.runDetached(ctx, e, q, sb)
	}
	return a.converse(ctx, q, session{engine: e, sandbox: sb, keys: keys, reattach: q.Agent && q.Command.TTY})
}

// startFirst starts a sandbox. One that was just created and cannot start does
// not stay behind.
func (a *app) startFirst(ctx context.Context, e *engine.Engine, sb *spec.Sandbox, created bool) error {
	conn, err := e.Connect(ctx, sb)
	if err != nil {
		if created {
			_ = e.Remove(context.WithoutCancel(ctx), sb, true)
		}
		return err
	}
	return conn.Close()
}

// shellCommand gives the shell's arguments: flags are for the shell, anything
// else is a program of its own.
func shellCommand(args []string) []string {
	if len(args) > 0 && strings.HasPrefix(args[0], "-") {
		return append([]string{"/bin/sh"}, args...)
	}
	return args
}

func (a *app) wantsTTY(f *runFlags) bool {
	if f.detached {
		return len(f.command) == 0 // an agent in the background has a terminal to come back to
	}
	return f.tty || term.IsTerminal(a.stdin) && term.IsTerminal(a.stdout)
}

func (a *app) runDetached(ctx context.Context, e *engine.Engine, q wire.Ask, sb *spec.Sandbox) error {
	conn, _, err := ask(ctx, e, sb, q)
	if err != nil {
		return err
	}
	defer conn.Close()
	fmt.Fprintln(a.stdout, sb.Name)
	return nil
}

// find gives the sandbox to run in, creating it if there is none. With --rm it
// is always a fresh one.
func (a *app) find(cmd *cobra.Command, e *engine.Engine, f *runFlags) (sb *spec.Sandbox, created bool, err error) {
	if f.existing != nil {
		return f.existing, false, a.sameSettings(cmd, f.existing, nil)
	}
	wish, err := a.sandbox(e, &f.createFlags, f.agent, f.paths)
	if err != nil {
		return nil, false, err
	}
	wish.Remove = f.remove
	if f.remove {
		return wish, true, e.Create(wish)
	}
	if sb, created, err = e.Obtain(wish); err != nil || created {
		return sb, created, err
	}
	return sb, false, a.sameSettings(cmd, sb, wish)
}

// sameSettings refuses to run in a sandbox that was created otherwise than is
// asked for now: silence would let a limit or a :ro go missing.
func (a *app) sameSettings(cmd *cobra.Command, sb, wish *spec.Sandbox) error {
	differs := func(what string) error {
		return spec.Errorf(spec.ErrConflict, "sandbox %s exists with other %s", sb.Name, what).
			WithHint("what a sandbox is made of is fixed at its creation; remove it first (bothy rm %s) or choose another --name", sb.Name)
	}
	changed := cmd.Flags().Changed
	if wish == nil {
		for _, name := range []string{"volume", "cpus", "memory", "pids", "disk", "idle-timeout"} {
			if changed(name) {
				return differs("settings (--" + name + ")")
			}
		}
		return nil
	}
	if !slices.Equal(sb.Workspaces, wish.Workspaces) && !(len(wish.Workspaces) == 1 && sb.Workspaces[0] == wish.Workspaces[0]) {
		return differs("directories")
	}
	switch {
	case changed("volume") && !slices.Equal(sb.Volumes, wish.Volumes):
		return differs("volumes")
	case changed("cpus") && sb.Limits.CPUs != wish.Limits.CPUs,
		changed("memory") && sb.Limits.Memory != wish.Limits.Memory,
		changed("pids") && sb.Limits.Pids != wish.Limits.Pids,
		changed("disk") && sb.Limits.Disk != wish.Limits.Disk:
		return differs("limits")
	case changed("idle-timeout") && sb.IdleTimeout != wish.IdleTimeout:
		return differs("idle timeout")
	}
	return nil
}

// warnLimits tells once, when a sandbox is used, which limits do not hold.
func (a *app) warnLimits(e *engine.Engine, sb *spec.Sandbox) {
	if !term.IsTerminal(a.stderr) {
		return
	}
	for _, l := range e.Store.Sandbox(sb.ID).ReadStatus().Limits {
		if !l.Enforced {
			a.note("the %s limit is not enforced on this host: %s", l.Limit, l.Reason)
		}
	}
}

func (a *app) detachKeysOf(flag string) ([]byte, error) {
	if flag == "" {
		flag = a.config.detachKeys()
	}
	keys, err := term.ParseKeys(flag)
	if err != nil {
		return nil, spec.Errorf(spec.ErrUsage, "--detach-keys: %w", err)
	}
	return keys, nil
}
