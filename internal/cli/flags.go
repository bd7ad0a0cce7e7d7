package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/hostcreds"
	"github.com/bothy-dev/bothy/internal/workspace"
	"github.com/bothy-dev/bothy/spec"
)

// createFlags are the settings fixed when a sandbox is created.
type createFlags struct {
	name     string
	env      []string
	envFiles []string
	volumes  []string
	private  []string
	workdir  string
	user     string
	cpus     float64
	memory   string
	pids     int64
	disk     string
	idle     time.Duration
	template string
	pull     string
	local    bool
	upgrade  bool
	version  string
	config   bool
	secrets  []string
	lend     []string
	mock     string
	server   serverFlags
	force    bool
	mode     string
	gitDir   string
	when     string
	quiet    bool
	tasks    string
	docker   bool
	changed  func(flag string) bool
	budget   budgetFlags
	network  networkFlags
	ports    portFlags

	gitAdvice []gitAdvice // why git does not work in the new sandbox
}

func (f *createFlags) add(a *app, c *cobra.Command) {
	fs := c.Flags()
	f.changed = fs.Changed
	fs.StringVar(&f.name, "name", "", "name of the sandbox (default AGENT-DIRECTORY)")
	fs.StringArrayVarP(&f.env, "env", "e", nil, "set KEY=VALUE, or pass KEY on from your environment")
	fs.StringArrayVar(&f.envFiles, "env-file", nil, "read KEY=VALUE lines from a file")
	fs.StringArrayVarP(&f.volumes, "volume", "v", nil, "share another directory or file: SRC[:DST][:ro]")
	fs.StringArrayVar(&f.private, "private", nil, "give the sandbox a directory of its own at this path of the project, e.g. node_modules")
	fs.StringArrayVar(&f.secrets, "secret", nil, "lend it a secret: NAME[:TIME], e.g. anthropic:8h; repeatable")
	fs.StringArrayVar(&f.lend, "lend", nil, "lend it what tools of this host log in with: TOOL[:HOST],... of "+strings.Join(hostcreds.Names(), " "))
	fs.StringVar(&f.mock, "mock", "", "play the providers of models by this script: no model is asked, and no key is needed")
	f.server.add(a, c)
	fs.StringVarP(&f.workdir, "workdir", "w", "", "directory inside to work in (default the first PATH)")
	fs.StringVarP(&f.user, "user", "u", "", "user inside: NAME|UID[:GROUP|GID] (default you; root may do anything inside)")
	fs.Float64Var(&f.cpus, "cpus", 0, "processors the sandbox may use, e.g. 1.5")
	fs.StringVarP(&f.memory, "memory", "m", "", "memory the sandbox may use, e.g. 4g")
	fs.Int64Var(&f.pids, "pids", 0, "processes and threads inside")
	fs.StringVar(&f.disk, "disk", "", "what it may keep on the disk outside of your directories, e.g. 20g")
	fs.DurationVar(&f.idle, "idle-timeout", 0, "stop by itself when unused so long (0: setting idle_timeout)")
	fs.StringVarP(&f.template, "template", "t", spec.TemplateHost, "what the root file system starts from: host, a template made by bothy save, a container image (NAME[:TAG][@DIGEST], or a path to one), or a directory with a Dockerfile or a devcontainer.json: ./DIR")
	fs.StringVar(&f.pull, "pull", pullMissing, "when to ask the registry for an image: missing, always or never; local: ask the Docker of this machine")
	fs.StringVar(&f.pull, "pull-template", pullMissing, "the same as --pull, as docker sandbox had it")
	_ = fs.MarkHidden("pull-template")
	fs.BoolVar(&f.local, "load-local-template", false, "the template is on this machine, here or with Docker: --pull local")
	fs.StringVar(&f.version, "agent-version", "", "use this VERSION or TAG of the agent, or a program that is there: host, or template (default the newest that is installed)")
	fs.BoolVar(&f.upgrade, "upgrade", false, "ask the registry for the latest version of the agent, and use it")
	fs.BoolVar(&f.config, "agent-config", false, "show it, read-only, what your home has of the agent's configuration and is no secret (default: setting agent_config)")
	f.ports.add(c)
	fs.StringVar(&f.mode, "workspace", spec.WorkspaceLive, "how writes reach your directories: live; review: they wait for bothy diff and bothy apply; clone: it works on a private clone, see bothy fetch")
	fs.StringVar(&f.gitDir, "git-dir", "", "for a worktree or a submodule: share, too, the directory in which git keeps what belongs to it (share), or do not ask (none)")
	fs.StringVar(&f.when, "checkpoint", "", "have checkpoints made by themselves: "+spec.EachTurn+", "+spec.EachCommit+" or a time such as 10m, or several with commas")
	fs.StringVar(&f.tasks, "share-tasks", "", "what programs inside may do with the tasks of the project (bothy task), by the command bd and by MCP: read, add or write")
	fs.BoolVar(&f.docker, "docker", false, "give it a Docker daemon of its own, which begins when it is first asked for (default: setting docker)")
	fs.BoolVar(&f.force, "force-workspace", false, "share a home directory or / all the same")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "accepted as of create; does nothing here")
	f.network.add(c)
	for _, path := range []string{"env-file", "volume", "workdir", "mock"} {
		completeFlag(c, path, fileNames)
	}
	completeFlag(c, "template", a.templateNames)
	completeFlag(c, "lend", toolNames)
	completeFlag(c, "git-dir", oneOf(gitDirShare, gitDirNone))
	completeFlag(c, "share-tasks", oneOf(spec.TasksRead, spec.TasksAdd, spec.TasksWrite))
	completeFlag(c, "checkpoint", oneOf(spec.EachTurn, spec.EachCommit))
}

// sandbox turns flags and arguments into a spec.
func (a *app) sandbox(ctx context.Context, e *engine.Engine, f *createFlags, agent string, paths []string) (*spec.Sandbox, error) {
	if err := spec.CheckWorkspaceMode(f.mode); err != nil {
		return nil, err
	}
	when, err := spec.ParseOccasions(f.when)
	if err != nil {
		return nil, &spec.Error{Op: "--checkpoint", Err: err}
	}
	env, err := a.environment(f.env, f.envFiles)
	if err != nil {
		return nil, err
	}
	memory, err := spec.ParseSize(f.memory)
	if err != nil {
		return nil, spec.Errorf(spec.ErrUsage, "--memory: %w", err)
	}
	disk, err := spec.ParseSize(f.disk)
	if err != nil {
		return nil, spec.Errorf(spec.ErrUsage, "--disk: %w", err)
	}
	switch {
	case !spec.ValidCPUs(f.cpus):
		return nil, spec.Errorf(spec.ErrUsage, "--cpus %v is no number of processors", f.cpus)
	case f.pids < 0:
		return nil, spec.Errorf(spec.ErrUsage, "--pids %d is negative", f.pids)
	case f.idle < 0:
		return nil, spec.Errorf(spec.ErrUsage, "--idle-timeout %s is negative", f.idle)
	}
	if memory > 0 && memory < spec.MinMemory {
		return nil, spec.Errorf(spec.ErrUsage, "--memory: a sandbox needs at least %s", spec.FormatSize(spec.MinMemory))
	}
	if f.workdir != "" && !filepath.IsAbs(f.workdir) {
		return nil, spec.Errorf(spec.ErrUsage, "--workdir %q must be absolute", f.workdir)
	}
	if err := f.budget.Check(); err != nil {
		return nil, err
	}
	if err := spec.CheckTasks(f.tasks); err != nil {
		return nil, &spec.Error{Op: "--share-tasks", Err: err}
	}
	if f.tasks != "" && len(paths) == 0 {
		return nil, spec.Errorf(spec.ErrUsage, "--share-tasks: the tasks are those of a directory, and none is shared")
	}
	sb := &spec.Sandbox{
		Version: spec.Version, ID: newID(), Name: f.name, Agent: agent, Driver: "gvisor",
		CreatedAt: time.Now().UTC(), User: f.user, Workdir: f.workdir, Env: env,
		Limits: spec.Limits{CPUs: f.cpus, Memory: memory, Pids: f.pids, Disk: disk}, IdleTimeout: spec.Duration(f.idle),
		Workspaces: []spec.Mount{}, Checkpoint: when.String(), Budget: f.budget.Budget, Tasks: f.tasks,
		Docker: a.settings.Docker,
	}
	if f.mode != spec.WorkspaceLive {
		sb.WorkspaceMode = f.mode
	}
	if err := f.ports.apply(a, sb); err != nil {
		return nil, err
	}
	a.warnLocalhost(e, agent, env, paths)
	if f.idle == 0 {
		sb.IdleTimeout = a.settings.IdleTimeout()
	}
	r, err := a.rules(e, f.force)
	if err != nil {
		return nil, err
	}
	for _, p := range paths {
		m, err := r.Parse(p)
		if err != nil {
			return nil, err
		}
		sb.Workspaces = append(sb.Workspaces, m)
		if n, ok := r.Named(p, m); ok {
			sb.Named = append(sb.Named, n)
		}
	}
	for _, v := range f.volumes {
		m, err := r.ParseVolume(v)
		if err != nil {
			return nil, err
		}
		sb.Volumes = append(sb.Volumes, m)
	}
	if sb.Private, err = a.privateDirs(f.private, slices.Concat(sb.Workspaces, sb.Volumes)); err != nil {
		return nil, err
	}
	// Last, so that nothing is fetched for a line with a mistake in it.
	pull := f.pull
	if f.local {
		pull = pullLocal
	}
	if isPath(f.template) {
		if project, file := devcontainerAt(f.template); file != "" {
			err = a.fromDevcontainer(ctx, e, sb, project, file, buildFlags{pull: pull, network: f.network})
			f.hasDocker(e, sb)
			return sb, err
		}
	}
	sb.Template, sb.Image, err = a.templateOf(ctx, e, f.template, pull, &f.network)
	f.hasDocker(e, sb)
	return sb, err
}

// hasDocker decides whether a sandbox has a Docker daemon. The flag decides; without it the sandbox
// has one if the settings or the template ask for it.
func (f *createFlags) hasDocker(e *engine.Engine, sb *spec.Sandbox) {
	sb.Docker = sb.Docker || e.Templates().AsksForDocker(sb)
	if f.changed("docker") {
		sb.Docker = f.docker
	}
}

// privateDirs returns the requested private directories, and those of the settings that exist in the
// first workspace.
func (a *app) privateDirs(asked []string, shared []spec.Mount) ([]string, error) {
	var dirs []string
	for _, p := range asked {
		dir, err := workspace.ParsePrivate(p, shared)
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, dir)
	}
	for _, p := range a.settings.Private {
		if len(shared) == 0 {
			break
		}
		dir := filepath.Join(shared[0].Target, p)
		info, err := os.Lstat(filepath.Join(shared[0].Source, p))
		if err == nil && info.IsDir() && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}

// variables parses a file of variables: one per line, with comments, or separated by zero bytes as
// "env -0" prints them, with any values.
func variables(text string) (list []string) {
	if strings.Contains(text, "\x00") {
		return strings.FieldsFunc(text, func(r rune) bool { return r == 0 })
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if strings.TrimSpace(line) != "" && !strings.HasPrefix(strings.TrimSpace(line), "#") {
			list = append(list, line)
		}
	}
	return list
}

// readEnvFile reads a file of variables, which may be a pipe.
func (a *app) readEnvFile(name string) ([]byte, error) {
	f, err := a.openNamed(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// environment collects -e and --env-file. A KEY alone is passed on if it is set.
func (a *app) environment(pairs, files []string) ([]string, error) {
	var env, lines []string
	for _, name := range files {
		data, err := a.readEnvFile(name)
		if err != nil {
			return nil, notOpened(spec.ErrUsage, "read --env-file", err)
		}
		lines = append(lines, variables(string(data))...)
	}
	for _, kv := range append(lines, pairs...) {
		key, _, set := strings.Cut(kv, "=")
		if key == "" || !utf8.ValidString(kv) || strings.ContainsAny(kv, "\x00") || strings.ContainsAny(key, " \t\n") {
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
