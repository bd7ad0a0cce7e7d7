package cli

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/spec"
)

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
	if !validCPUs(f.cpus) || f.pids < 0 || f.idle < 0 {
		return nil, spec.Errorf(spec.ErrUsage, "a limit must be a number, and not negative")
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

// validCPUs admits a number of processors, 0 for none asked for.
func validCPUs(n float64) bool { return n >= 0 && n <= 1<<20 }

// minSandboxMemory is what the wall itself and a shell need.
const minSandboxMemory = 64 << 20

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
