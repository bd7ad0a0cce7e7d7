package engine

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"reflect"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/rootfs"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// Ground is the system that the programs of a sandbox run on.
type Ground struct {
	agent.Target
	Host  bool          // programs see those of the host
	image *rootfs.Files // the files that they see instead
}

// HostGround returns the ground of this machine.
func HostGround() Ground { return Ground{Target: agent.TargetOf("/"), Host: true} }

// GroundOf returns the ground of a sandbox's programs.
func (e *Engine) GroundOf(ctx context.Context, sb *spec.Sandbox) (Ground, error) {
	g := HostGround()
	if sb.Image == nil {
		return g, nil
	}
	g.Host = false
	root, err := e.Images().Root(ctx, sb)
	if err != nil {
		return g, err
	}
	g.Libc, g.image = root.Libc, &rootfs.Files{Sandbox: sb, Root: *root}
	return g, nil
}

// Progress receives the progress of an installation, with the program's title.
type Progress func(title string, ev agent.Event)

// AgentProgram returns the installation that a sandbox of an agent is to use. version is a version,
// or a tag of the registry; if it is empty, the newest installed version is used, or else the
// latest. AgentProgram installs a missing version, and the runtime that it needs. It returns nil
// for [HostVersion] and [TemplateVersion], and for an agent that Bothy does not install.
func (e *Engine) AgentProgram(ctx context.Context, a *spec.Agent, g Ground, version string, progress Progress) (p *spec.Program, notices []string, err error) {
	switch {
	case version == HostVersion && !g.Host:
		return nil, nil, spec.Errorf(spec.ErrUsage, "a sandbox with the root of an image does not see the programs of the host").
			WithHint("use the image's own program: --agent-version %s", TemplateVersion)
	case version == HostVersion:
		return nil, nil, onHost(a)
	case version == TemplateVersion, a.Install == nil && version == "":
		return nil, nil, nil
	}
	if p, notices, err = e.program(ctx, a, g, version, progress); err != nil {
		return nil, nil, err
	}
	var more []string
	p.Runtime, more, err = e.AgentRuntime(ctx, a, g, progress)
	return p, append(notices, more...), err
}

// program returns the installation of an agent, without its runtime.
func (e *Engine) program(ctx context.Context, a *spec.Agent, g Ground, version string, progress Progress) (*spec.Program, []string, error) {
	if version == "" {
		there, ok, err := e.newest(a, g.Target)
		if err != nil || ok {
			return programOf(a, there), nil, err
		}
	}
	r, err := e.InstallVersion(ctx, a, g, version, progress)
	return programOf(a, r.Installation), r.Notices, err
}

func programOf(a *spec.Agent, there agent.Installation) *spec.Program {
	return &spec.Program{Name: a.Program, Installation: there.ID(), Binary: there.Binary}
}

// ChangeProgram gives a sandbox another installation from its next start on; nil means the host's
// program. A running sandbox keeps its installation: the error is of class [spec.ErrConflict],
// unless it has the wished one already.
func (e *Engine) ChangeProgram(ctx context.Context, sb *spec.Sandbox, p *spec.Program) error {
	names, err := e.holdNames(ctx) // so that the installation is not removed meanwhile
	if err != nil {
		return err
	}
	defer names.Unlock()
	rules, err := e.Store.PolicyLock() // so that the ports do not change meanwhile
	if err != nil {
		return err
	}
	defer rules.Unlock()
	return e.tell(ctx, sb, func(_ context.Context, c *unixconn.Conn) error {
		c.Close()
		return e.runsWith(sb, p)
	}, func() error { return e.writeProgram(sb, p) })
}

// writeProgram changes the program of a sandbox that cannot start meanwhile.
func (e *Engine) writeProgram(sb *spec.Sandbox, p *spec.Program) error {
	now, err := e.Store.Load(sb.ID)
	if err != nil {
		return err
	}
	now.Program = p
	if _, _, err := e.programDirs(now); err != nil {
		return err
	}
	if err := store.WriteJSON(e.Store.Sandbox(sb.ID).Spec(), now); err != nil {
		return &spec.Error{Op: "change the program of " + sb.Name, Err: err}
	}
	sb.Program = p
	return nil
}

// MayRun refuses another version of its agent for a running sandbox, as ChangeProgram does, but
// before that version is installed. It accepts a tag: its version is not known yet.
func (e *Engine) MayRun(sb *spec.Sandbox, version string) error {
	if !agent.Exact(version) || e.Status(sb).State != spec.Running {
		return nil
	}
	now, err := e.Store.Load(sb.ID)
	if err != nil || e.isVersion(now, version) {
		return err
	}
	return staysWith(now, version)
}

// isVersion reports whether a sandbox uses an installation of a version.
func (e *Engine) isVersion(sb *spec.Sandbox, version string) bool {
	if sb.Program == nil {
		return false
	}
	home, err := agent.HomeOf(e.Store, cmp.Or(sb.Program.From, sb.Agent))
	if err != nil {
		return false
	}
	there, err := home.Get(sb.Program.Installation)
	return err == nil && there.Release == version
}

// runsWith returns an error unless a running sandbox has the wished program.
func (e *Engine) runsWith(sb *spec.Sandbox, p *spec.Program) error {
	now, err := e.Store.Load(sb.ID)
	if err != nil {
		return err
	}
	if reflect.DeepEqual(now.Program, p) {
		return nil
	}
	return staysWith(now, versionOf(p))
}

// staysWith is the error for a running sandbox that cannot have another version.
func staysWith(sb *spec.Sandbox, wish string) error {
	return spec.Errorf(spec.ErrConflict, "sandbox %s runs with version %s of %s, and would have to start again with %s", sb.Name, versionOf(sb.Program), sb.Agent, wish).
		WithHint("when nothing in it is at work: bothy stop %s, then run this again", sb.Name)
}

func versionOf(p *spec.Program) string {
	if p == nil {
		return TemplateVersion
	}
	return p.Installation
}

// InstallVersion makes sure that a version of an agent, or the version that a tag means, is
// installed for a ground. An empty version means the latest.
func (e *Engine) InstallVersion(ctx context.Context, a *spec.Agent, g Ground, version string, progress Progress) (agent.Result, error) {
	r, err := requestFor(a, g, version)
	if err != nil {
		return agent.Result{}, err
	}
	return e.InstallAgent(ctx, r, func(ev agent.Event) { progress(a.Title, ev) })
}

// CheckVersion returns the errors of InstallVersion that need no request to a registry.
func CheckVersion(a *spec.Agent, g Ground, version string) error {
	_, err := requestFor(a, g, version)
	return err
}

func requestFor(a *spec.Agent, g Ground, version string) (agent.Request, error) {
	if a.Install == nil {
		err := spec.Errorf(spec.ErrUsage, "%s is not installed by Bothy: its description names no package", a.Title)
		if a.Get != "" {
			err = err.WithHint("%s", agent.HowToGet(a, "SANDBOX"))
		}
		return agent.Request{}, err
	}
	r := agent.Request{Name: a.Name, Source: *a.Install, Version: version, Target: g.Target}
	return r, r.Check()
}

// newest returns the newest installed version of an agent, if any is.
func (e *Engine) newest(a *spec.Agent, on agent.Target) (agent.Installation, bool, error) {
	key, _, err := agent.PlatformFor(*a.Install, on)
	if err != nil {
		return agent.Installation{}, false, err
	}
	home, err := agent.HomeOf(e.Store, a.Name)
	if err != nil {
		return agent.Installation{}, false, err
	}
	there, ok := home.Newest(key)
	return there, ok && there.Package == a.Install.Package, nil
}

// programDirs returns the directories of the installation that a sandbox uses, and of its runtime.
// They are empty if it has none.
func (e *Engine) programDirs(sb *spec.Sandbox) (program, runtime string, err error) {
	if sb.Program == nil {
		return "", "", nil
	}
	if program, err = e.programDir(sb, sb.Program); err == nil && sb.Program.Runtime != nil {
		runtime, err = e.programDir(sb, sb.Program.Runtime)
	}
	return program, runtime, err
}

func (e *Engine) programDir(sb *spec.Sandbox, p *spec.Program) (string, error) {
	name := cmp.Or(p.From, sb.Agent)
	home, err := agent.HomeOf(e.Store, name)
	if err != nil {
		return "", err
	}
	there, err := home.Get(p.Installation)
	if errors.Is(err, fs.ErrNotExist) {
		err = spec.Errorf(spec.ErrNotFound, "its %s %s is not installed any more", name, p.Installation).
			WithHint("install that again (bothy agent install %s@%s), or use the newest: bothy run --upgrade %s", name, p.Installation, sb.Name)
	}
	return there.Root(), err
}
