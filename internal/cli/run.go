package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// shellAgent is the agent that is no agent: the user's own shell.
const shellAgent = "shell"

// createFlags are what is decided when a sandbox is created.
type createFlags struct {
	name     string
	env      []string
	envFiles []string
	volumes  []string
	workdir  string
	user     string
	cpus     float64
	memory   string
	pids     int64
	disk     string
	idle     time.Duration
	template string
	force    bool
	quiet    bool
}

func (f *createFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.name, "name", "", "name of the sandbox (default AGENT-DIRECTORY)")
	fs.StringArrayVarP(&f.env, "env", "e", nil, "set KEY=VALUE, or pass KEY on from your environment")
	fs.StringArrayVar(&f.envFiles, "env-file", nil, "read KEY=VALUE lines from a file")
	fs.StringArrayVarP(&f.volumes, "volume", "v", nil, "share another directory or file: SRC[:DST][:ro]")
	fs.StringVarP(&f.workdir, "workdir", "w", "", "directory inside to work in (default the first PATH)")
	fs.StringVarP(&f.user, "user", "u", "", "user inside: NAME|UID[:GROUP|GID] (default you; root may do anything inside)")
	fs.Float64Var(&f.cpus, "cpus", 0, "processors the sandbox may use, e.g. 1.5")
	fs.StringVarP(&f.memory, "memory", "m", "", "memory the sandbox may use, e.g. 4g")
	fs.Int64Var(&f.pids, "pids", 0, "processes and threads inside")
	fs.StringVar(&f.disk, "disk", "", "size of the private layer over the template, e.g. 20g")
	fs.DurationVar(&f.idle, "idle-timeout", 0, "stop by itself when unused so long (0: setting idle_timeout)")
	fs.StringVarP(&f.template, "template", "t", "host", "what the root file system starts from")
	fs.BoolVar(&f.force, "force-workspace", false, "share a home directory or / all the same")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "print the name only")
}

// sandbox turns flags and arguments into a spec.
func (a *app) sandbox(e *engine.Engine, f *createFlags, agent string, paths []string) (*spec.Sandbox, error) {
	if f.template != "host" {
		return nil, spec.Errorf(spec.ErrUsage, "no template %q: this version has only \"host\"", f.template)
	}
	env, err := environment(f.env, f.envFiles)
	if err != nil {
		return nil, err
	}
	memory, err := parseSize(f.memory)
	if err != nil {
		return nil, spec.Errorf(spec.ErrUsage, "--memory: %w", err)
	}
	disk, err := parseSize(f.disk)
	if err != nil {
		return nil, spec.Errorf(spec.ErrUsage, "--disk: %w", err)
	}
	if f.cpus < 0 || f.pids < 0 || f.idle < 0 {
		return nil, spec.Errorf(spec.ErrUsage, "a limit cannot be negative")
	}
	if memory > 0 && memory < minSandboxMemory {
		return nil, spec.Errorf(spec.ErrUsage, "--memory: a sandbox needs at least %s", formatSize(minSandboxMemory))
	}
	if f.workdir != "" && !filepath.IsAbs(f.workdir) {
		return nil, spec.Errorf(spec.ErrUsage, "--workdir %q must be absolute", f.workdir)
	}
	sb := &spec.Sandbox{
		Version: spec.Version, ID: newID(), Name: f.name, Agent: agent, Driver: "gvisor", Template: f.template,
		CreatedAt: time.Now().UTC(), User: f.user, Workdir: f.workdir, Env: env,
		Limits: spec.Limits{CPUs: f.cpus, Memory: memory, Pids: f.pids, Disk: disk}, IdleTimeout: spec.Duration(f.idle),
		Workspaces: []spec.Mount{},
	}
	if f.idle == 0 {
		sb.IdleTimeout = a.config.idleTimeout()
	}
	r := rules(e, f.force)
	for _, p := range paths {
		m, err := r.Parse(p)
		if err != nil {
			return nil, err
		}
		sb.Workspaces = append(sb.Workspaces, m)
	}
	for _, v := range f.volumes {
		m, err := r.ParseVolume(v)
		if err != nil {
			return nil, err
		}
		sb.Volumes = append(sb.Volumes, m)
	}
	return sb, nil
}

// minSandboxMemory is what the wall itself and a shell need.
const minSandboxMemory = 64 << 20

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
	conn, err := e.Connect(ctx, sb)
	if err != nil {
		if created && !f.remove {
			_ = e.Remove(context.WithoutCancel(ctx), sb, true)
		}
		return err
	}
	defer conn.Close()
	a.warnLimits(e, sb)
	ask := wire.Ask{Op: wire.OpExec, Agent: len(f.command) == 0, Detached: f.detached, Command: wire.Command{
		Args: shellCommand(f.command), TTY: a.wantsTTY(f),
	}}
	if ask.Command.Env, err = environment(f.env, f.envFiles); err != nil {
		return err
	}
	if f.existing != nil || !created {
		ask.Command.Dir, ask.Command.User = f.workdir, f.user
	}
	if f.detached {
		return a.runDetached(conn, ask, sb, f)
	}
	return a.converse(conn, ask, session{sandbox: sb, keys: keys, reattach: ask.Agent && ask.Command.TTY})
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

func (a *app) runDetached(conn *unixconn.Conn, ask wire.Ask, sb *spec.Sandbox, f *runFlags) error {
	var started wire.Started
	if err := conn.SendJSON(wire.Request, ask); err != nil {
		return err
	}
	if err := conn.Expect(wire.Reply, &started); err != nil {
		return err
	}
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

// environment collects -e and --env-file; KEY alone is passed on, if set.
func environment(pairs, files []string) ([]string, error) {
	var env, lines []string
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, &spec.Error{Class: spec.ErrUsage, Op: "read --env-file", Err: err}
		}
		for line := range strings.Lines(string(data)) {
			line = strings.TrimRight(line, "\r\n")
			if strings.TrimSpace(line) != "" && !strings.HasPrefix(strings.TrimSpace(line), "#") {
				lines = append(lines, line)
			}
		}
	}
	for _, kv := range append(lines, pairs...) {
		key, _, set := strings.Cut(kv, "=")
		if key == "" || strings.ContainsAny(kv, "\x00") || strings.ContainsAny(key, " \t\n") {
			return nil, spec.Errorf(spec.ErrUsage, "%q is not KEY=VALUE", kv)
		}
		if set {
			env = append(env, kv)
		} else if v, ok := os.LookupEnv(key); ok {
			env = append(env, key+"="+v)
		}
	}
	return env, nil
}
