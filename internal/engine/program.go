package engine

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"reflect"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// Ground is what programs of a sandbox run on.
type Ground struct {
	agent.Target
	Host  bool        // they see those of the host
	image *imageFiles // what they see instead
}

// HostGround is this machine.
func HostGround() Ground { return Ground{Target: agent.TargetOf("/"), Host: true} }

// GroundOf is what programs of a sandbox run on.
func (e *Engine) GroundOf(ctx context.Context, sb *spec.Sandbox) (Ground, error) {
	g := HostGround()
	if sb.Image == nil {
		return g, nil
	}
	root, err := e.imageRoot(ctx, sb)
	g.Libc, g.Host, g.image = root.Libc, false, &imageFiles{sandbox: sb, root: root}
	return g, err
}

// Progress is told how far the installation of a program is, with its title.
type Progress func(title string, ev agent.Event)

// AgentProgram gives the installation that a sandbox of an agent is to use: of a
// version, of what a tag of the registry means, or, with an empty one, the
// newest that is installed, or else the latest. What is not there is installed,
// also what it runs on. It is nil for [HostVersion] and [TemplateVersion], and for an agent that nobody
// installs.
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

// program gives the installation of an agent alone.
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

// ChangeProgram has a sandbox use another installation from its next start on;
// nil is the host's program. One that runs keeps what it runs with: that is an
// error of class [spec.ErrConflict], unless it has the wished one already.
func (e *Engine) ChangeProgram(ctx context.Context, sb *spec.Sandbox, p *spec.Program) error {
	names, err := e.holdNames(ctx) // so that nobody removes the installation meanwhile
	if err != nil {
		return err
	}
	defer names.Unlock()
	rules, err := e.Store.PolicyLock() // so that nobody changes the ports meanwhile
	if err != nil {
		return err
	}
	defer rules.Unlock()
	return e.tell(ctx, sb, func(_ context.Context, c *unixconn.Conn) error {
		c.Close()
		return e.runsWith(sb, p)
	}, func() error { return e.writeProgram(sb, p) })
}

// writeProgram changes a sandbox that nobody can start meanwhile.
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

// MayRun refuses another version of its agent for a sandbox that runs, as ChangeProgram
// does, before that is installed. Which one a tag means nobody knows before.
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

// isVersion tells whether a sandbox uses an installation of a version.
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

// runsWith accepts that a running sandbox has the program that is wished for.
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

// staysWith is the error that a sandbox which runs cannot have another version.
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

// InstallVersion makes sure that a version of an agent is there, or the one a
// tag means, for what the host runs. Empty is the latest.
func (e *Engine) InstallVersion(ctx context.Context, a *spec.Agent, g Ground, version string, progress Progress) (agent.Result, error) {
	r, err := requestFor(a, g, version)
	if err != nil {
		return agent.Result{}, err
	}
	return e.InstallAgent(ctx, r, func(ev agent.Event) { progress(a.Title, ev) })
}

// CheckVersion refuses what InstallVersion would without asking anybody.
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

// newest gives the newest version of an agent that is installed, if any is.
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

// programDirs are the directories of the installation that a sandbox uses, and
// of what that runs on; empty where there is none.
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
