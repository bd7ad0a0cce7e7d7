package engine

import (
	"context"
	"errors"
	"io/fs"

	"github.com/bothy-dev/bothy/internal/agent"
	"github.com/bothy-dev/bothy/spec"
)

// AgentProgram gives the installation that a new sandbox of an agent uses: the
// newest there is, or else the latest of the registry, which is installed. It
// is nil for an agent that nobody installs.
func (e *Engine) AgentProgram(ctx context.Context, a *spec.Agent, progress func(agent.Event)) (*spec.Program, []string, error) {
	if a.Install == nil {
		return nil, nil, nil
	}
	there, ok, err := e.newest(a)
	if err != nil {
		return nil, nil, err
	}
	var notices []string
	if !ok {
		r, err := e.InstallVersion(ctx, a, "", progress)
		if err != nil {
			return nil, nil, err
		}
		there, notices = r.Installation, r.Notices
	}
	return &spec.Program{Name: a.Program, Installation: there.ID(), Binary: there.Binary}, notices, nil
}

// InstallVersion makes sure that a version of an agent is there, or the one a
// tag means, for what the host runs. Empty is the latest.
func (e *Engine) InstallVersion(ctx context.Context, a *spec.Agent, version string, progress func(agent.Event)) (agent.Result, error) {
	if a.Install == nil {
		return agent.Result{}, spec.Errorf(spec.ErrUsage, "%s is not installed by Bothy: its description says nothing of where it is to be had", a.Title)
	}
	return e.InstallAgent(ctx, agent.Request{Name: a.Name, Source: *a.Install, Version: version, Target: agent.TargetOf("/")}, progress)
}

// newest gives the newest version of an agent that is installed, if any is.
func (e *Engine) newest(a *spec.Agent) (agent.Installation, bool, error) {
	key, _, err := agent.PlatformFor(*a.Install, agent.TargetOf("/"))
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

// programDir is the directory of the installation that a sandbox uses.
func (e *Engine) programDir(sb *spec.Sandbox) (string, error) {
	if sb.Program == nil {
		return "", nil
	}
	home, err := agent.HomeOf(e.Store, sb.Agent)
	if err != nil {
		return "", err
	}
	there, err := home.Get(sb.Program.Installation)
	if errors.Is(err, fs.ErrNotExist) {
		err = spec.Errorf(spec.ErrNotFound, "its %s %s is not installed any more", sb.Agent, sb.Program.Installation).
			WithHint("install that again (bothy agent install %s@%s), or use the newest: bothy run --upgrade %s", sb.Agent, sb.Program.Installation, sb.Name)
	}
	return there.Root(), err
}
