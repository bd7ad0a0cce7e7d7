// Package agentprogram answers which program of an agent a sandbox runs, and where it comes from:
// from the host, from the sandbox's image, or from a version that Bothy installed. It installs
// versions and the runtimes that they need, and keeps those that sandboxes use.
package agentprogram

import (
	"cmp"
	"context"
	"errors"
	"io/fs"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/internal/rootfs"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Programs are the programs of agents that the sandboxes of a state directory can run.
type Programs struct {
	Store  *store.Store
	Agents agent.Catalog
	Images *rootfs.Images
	// EachAway calls do with each sandbox that is put away.
	EachAway func(do func(*spec.Sandbox) error) error
	// Home returns the home directory in sandboxes that see the host's programs.
	Home func() string
}

// Ground is the system that the programs of a sandbox run on.
type Ground struct {
	agent.Target
	Host  bool          // programs see those of the host
	image *rootfs.Files // the files that they see instead
}

// HostGround returns the ground of this machine.
func HostGround() Ground { return Ground{Target: agent.TargetOf("/"), Host: true} }

// GroundOf returns the ground of a sandbox's programs.
func (s *Programs) GroundOf(ctx context.Context, sb *spec.Sandbox) (Ground, error) {
	g := HostGround()
	if sb.Image == nil {
		return g, nil
	}
	g.Host = false
	root, err := s.Images.Root(ctx, sb)
	if err != nil {
		return g, err
	}
	g.Libc, g.image = root.Libc, &rootfs.Files{Sandbox: sb, Root: *root}
	return g, nil
}

// Progress receives the progress of an installation, with the program's title.
type Progress func(title string, ev agent.Event)

// Choose returns the installation that a sandbox of an agent is to use. version is a version,
// or a tag of the registry; if it is empty, the newest installed version is used, or else the
// latest. Choose installs a missing version, and the runtime that it needs. It returns nil
// for [HostVersion] and [TemplateVersion], and for an agent that Bothy does not install.
func (s *Programs) Choose(ctx context.Context, a *spec.Agent, g Ground, version string, progress Progress) (p *spec.Program, notices []string, err error) {
	switch {
	case version == HostVersion && !g.Host:
		return nil, nil, spec.Errorf(spec.ErrUsage, "a sandbox with the root of an image does not see the programs of the host").
			WithHint("use the image's own program: --agent-version %s", TemplateVersion)
	case version == HostVersion:
		return nil, nil, s.checkOnHost(a)
	case version == TemplateVersion, a.Install == nil && version == "":
		return nil, nil, nil
	}
	if p, notices, err = s.chooseInstalled(ctx, a, g, version, progress); err != nil {
		return nil, nil, err
	}
	var more []string
	p.Runtime, more, err = s.Runtime(ctx, a, g, progress)
	return p, append(notices, more...), err
}

// chooseInstalled returns the installation of an agent, without its runtime.
func (s *Programs) chooseInstalled(ctx context.Context, a *spec.Agent, g Ground, version string, progress Progress) (*spec.Program, []string, error) {
	if version == "" {
		there, ok, err := s.newest(a, g.Target)
		if err != nil || ok {
			return programOf(a, there), nil, err
		}
	}
	r, err := s.InstallVersion(ctx, a, g, version, progress)
	return programOf(a, r.Installation), r.Notices, err
}

func programOf(a *spec.Agent, there agent.Installation) *spec.Program {
	return &spec.Program{Name: a.Program, Installation: there.ID(), Binary: there.Binary}
}

// HasVersion reports whether a sandbox uses an installation of a version.
func (s *Programs) HasVersion(sb *spec.Sandbox, version string) bool {
	if sb.Program == nil {
		return false
	}
	home, err := agent.HomeOf(s.Store, cmp.Or(sb.Program.From, sb.Agent))
	if err != nil {
		return false
	}
	there, err := home.Get(sb.Program.Installation)
	return err == nil && there.Release == version
}

// InstallVersion makes sure that a version of an agent, or the version that a tag means, is
// installed for a ground. An empty version means the latest.
func (s *Programs) InstallVersion(ctx context.Context, a *spec.Agent, g Ground, version string, progress Progress) (agent.Result, error) {
	r, err := requestFor(a, g, version)
	if err != nil {
		return agent.Result{}, err
	}
	return s.Install(ctx, r, func(ev agent.Event) { progress(a.Title, ev) })
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

// InstalledVersion returns the version of an agent that a new sandbox uses without asking the registry. It
// is empty if none is installed.
func (s *Programs) InstalledVersion(a *spec.Agent) (string, error) {
	if a.Install == nil {
		return "", nil
	}
	there, ok, err := s.newest(a, agent.TargetOf("/"))
	if err != nil || !ok {
		return "", err
	}
	return there.ID(), nil
}

// newest returns the newest installed version of an agent, if any is.
func (s *Programs) newest(a *spec.Agent, on agent.Target) (agent.Installation, bool, error) {
	key, _, err := agent.PlatformFor(*a.Install, on)
	if err != nil {
		return agent.Installation{}, false, err
	}
	home, err := agent.HomeOf(s.Store, a.Name)
	if err != nil {
		return agent.Installation{}, false, err
	}
	there, ok := home.Newest(key)
	return there, ok && there.Package == a.Install.Package, nil
}

// Dirs are the directories of the installations that a sandbox uses. Those that it has not are empty.
type Dirs struct{ Program, Runtime, Adapter string }

// Dirs returns the directories of the installations that a sandbox uses.
func (s *Programs) Dirs(sb *spec.Sandbox) (d Dirs, err error) {
	for _, of := range []struct {
		p  *spec.Program
		to *string
	}{{sb.Program, &d.Program}, {sb.Adapter, &d.Adapter}, {RuntimeOf(sb), &d.Runtime}} {
		if of.p != nil && err == nil {
			*of.to, err = s.installDir(sb, of.p)
		}
	}
	return d, err
}

// RuntimeOf returns the runtime of a sandbox's programs, or nil if none has one of Bothy's.
func RuntimeOf(sb *spec.Sandbox) *spec.Program {
	for _, p := range []*spec.Program{sb.Program, sb.Adapter} {
		if p != nil && p.Runtime != nil {
			return p.Runtime
		}
	}
	return nil
}

func (s *Programs) installDir(sb *spec.Sandbox, p *spec.Program) (string, error) {
	name := cmp.Or(p.From, sb.Agent)
	home, err := agent.HomeOf(s.Store, name)
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
