package cmdline

import (
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/hostcreds"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/spec"
)

// CreateFlags are the settings fixed when a sandbox is created.
type CreateFlags struct {
	Name     string
	Env      []string
	EnvFiles []string
	volumes  []string
	private  []string
	Workdir  string
	User     string
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
	Mode     string
	gitDir   string
	when     string
	Quiet    bool
	tasks    string
	docker   bool
	changed  func(flag string) bool
	Budget   BudgetFlags
	network  NetworkFlags
	ports    PortFlags
}

// Add adds the flags to a command.
func (f *CreateFlags) Add(a *App, c *cobra.Command) {
	fs := c.Flags()
	f.changed = fs.Changed
	fs.StringVar(&f.Name, "name", "", "name of the sandbox (default AGENT-DIRECTORY)")
	fs.StringArrayVarP(&f.Env, "env", "e", nil, "set KEY=VALUE, or pass KEY on from your environment")
	fs.StringArrayVar(&f.EnvFiles, "env-file", nil, "read KEY=VALUE lines from a file")
	fs.StringArrayVarP(&f.volumes, "volume", "v", nil, "share another directory or file: SRC[:DST][:ro]")
	fs.StringArrayVar(&f.private, "private", nil, "give the sandbox a directory of its own at this path of the project, e.g. node_modules")
	fs.StringArrayVar(&f.secrets, "secret", nil, "lend it a secret: NAME[:TIME], e.g. anthropic:8h; repeatable")
	fs.StringArrayVar(&f.lend, "lend", nil, "lend it what tools of this host log in with: TOOL[:HOST],... of "+strings.Join(hostcreds.Names(), " "))
	fs.StringVar(&f.mock, "mock", "", "play the providers of models by this script: no model is asked, and no key is needed")
	f.server.addFlags(a, c)
	fs.StringVarP(&f.Workdir, "workdir", "w", "", "directory inside to work in (default the first PATH)")
	fs.StringVarP(&f.User, "user", "u", "", "user inside: NAME|UID[:GROUP|GID] (default you; root may do anything inside)")
	fs.Float64Var(&f.cpus, "cpus", 0, "processors the sandbox may use, e.g. 1.5")
	fs.StringVarP(&f.memory, "memory", "m", "", "memory the sandbox may use, e.g. 4g")
	fs.Int64Var(&f.pids, "pids", 0, "processes and threads inside")
	fs.StringVar(&f.disk, "disk", "", "disk space it may use outside of your directories, e.g. 20g")
	fs.DurationVar(&f.idle, "idle-timeout", 0, "stop by itself when unused so long (0: setting idle_timeout)")
	fs.StringVarP(&f.template, "template", "t", spec.TemplateHost, "what the root file system starts from: host, a template made by bothy save, a container image (NAME[:TAG][@DIGEST], or a path to one), or a directory with a Dockerfile or a devcontainer.json: ./DIR")
	fs.StringVar(&f.pull, "pull", spec.PullMissing, "when to ask the registry for an image: missing, always or never; local: ask the Docker of this machine")
	fs.StringVar(&f.pull, "pull-template", spec.PullMissing, "the same as --pull, as docker sandbox had it")
	_ = fs.MarkHidden("pull-template")
	fs.BoolVar(&f.local, "load-local-template", false, "the template is on this machine, here or with Docker: --pull local")
	fs.StringVar(&f.version, "agent-version", "", "use this VERSION or TAG of the agent, or a program that is there: host, or template (default the newest that is installed)")
	fs.BoolVar(&f.upgrade, "upgrade", false, "ask the registry for the latest version of the agent, and use it")
	fs.BoolVar(&f.config, "agent-config", false, "show it, read-only, the agent's configuration in your home, without secrets (default: setting agent_config)")
	f.ports.Add(c)
	fs.StringVar(&f.Mode, "workspace", spec.WorkspaceLive, "how writes reach your directories: live; review: they wait for bothy diff and bothy apply; clone: it works on a private clone, see bothy fetch")
	fs.StringVar(&f.gitDir, "git-dir", "", "for a worktree or a submodule: share, too, the directory in which git keeps what belongs to it (share), or do not ask (none)")
	fs.StringVar(&f.when, "checkpoint", "", "make checkpoints automatically: "+spec.EachTurn+", "+spec.EachCommit+" or a time such as 10m, or several with commas")
	fs.StringVar(&f.tasks, "share-tasks", "", "what programs inside may do with the tasks of the project (bothy task), by the command bd and by MCP: read, add or write")
	fs.BoolVar(&f.docker, "docker", false, "run a Docker daemon in the sandbox, started on first use (default: setting docker)")
	fs.BoolVar(&f.force, "force-workspace", false, "allow sharing a home directory or /")
	fs.BoolVarP(&f.Quiet, "quiet", "q", false, "accepted as of create; does nothing here")
	f.network.Add(c)
	for _, path := range []string{"env-file", "volume", "workdir", "mock"} {
		CompleteFlag(c, path, FileNames)
	}
	CompleteFlag(c, "template", a.TemplateNames)
	CompleteFlag(c, "lend", toolNames)
	CompleteFlag(c, "git-dir", OneOf(spec.GitDirShare, spec.GitDirNone))
	CompleteFlag(c, "share-tasks", OneOf(spec.TasksRead, spec.TasksAdd, spec.TasksWrite))
	CompleteFlag(c, "checkpoint", OneOf(spec.EachTurn, spec.EachCommit))
}

// Request returns the request of the flags. Fields whose flags were not used are left to the settings.
func (f *CreateFlags) Request(a *App, who string, paths []string) (req spec.Request, err error) {
	req = spec.Request{
		Name: f.Name, Agent: who, Version: f.version, Workspaces: paths, ForceWorkspace: f.force, GitDir: f.gitDir,
		Volumes: f.volumes, Private: f.private, Tasks: f.tasks, Pull: f.pull, User: f.User, Workdir: f.Workdir,
		Publish: f.ports.Publish, HostPorts: f.ports.HostPorts, Secrets: f.secrets, Lend: f.lend,
		Mock: f.mock, ModelServer: f.server.url, ModelKey: f.server.key, ServerModel: f.server.model,
		Limits: spec.Limits{CPUs: f.cpus, Pids: f.pids}, Budget: f.Budget.Budget, IdleTimeout: spec.Duration(f.idle), Checkpoint: f.when,
	}
	f.network.fillRequest(&req)
	switch {
	case f.upgrade && f.version != "":
		return req, spec.Errorf(spec.ErrUsage, "--upgrade and --agent-version exclude each other")
	case f.upgrade:
		req.Version = agent.Latest
	}
	if f.local {
		req.Pull = spec.PullLocal
	}
	if f.changed("workspace") {
		req.WorkspaceMode = f.Mode
	}
	if f.changed("template") {
		req.Template = f.template
	}
	if f.changed("agent-config") {
		req.Config = &f.config
	}
	if f.changed("docker") {
		req.Docker = &f.docker
	}
	for name, zero := range map[string]bool{
		"cpus": f.cpus == 0, "pids": f.pids == 0, "idle-timeout": f.idle == 0,
		"max-tokens": f.Budget.Tokens == 0, "max-cost": f.Budget.USD == 0,
	} {
		if zero && f.changed(name) {
			req.Zero = append(req.Zero, name)
		}
	}
	slices.Sort(req.Zero)
	if req.Env, err = a.Environment(f.Env, f.EnvFiles); err != nil {
		return req, err
	}
	if req.Limits.Memory, err = spec.ParseSize(f.memory); err != nil {
		return req, spec.Errorf(spec.ErrUsage, "--memory: %w", err)
	}
	if req.Limits.Disk, err = spec.ParseSize(f.disk); err != nil {
		return req, spec.Errorf(spec.ErrUsage, "--disk: %w", err)
	}
	return req, nil
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
func (a *App) readEnvFile(name string) ([]byte, error) {
	f, err := a.OpenNamed(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// Environment collects -e and --env-file. A KEY alone is passed on if it is set.
func (a *App) Environment(pairs, files []string) ([]string, error) {
	var env, lines []string
	for _, name := range files {
		data, err := a.readEnvFile(name)
		if err != nil {
			return nil, hostpath.NotOpened(spec.ErrUsage, "read --env-file", err)
		}
		lines = append(lines, variables(string(data))...)
	}
	for _, kv := range append(lines, pairs...) {
		key, value, set := strings.Cut(kv, "=")
		if spec.CheckEnv([]string{key + "=" + value}) != nil {
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
