package provision

import (
	"context"
	"errors"
	"slices"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/modelmock"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/reconfigure"
	"github.com/bothy-dev/bothy/spec"
)

// errGone says that the sandbox of a plan was removed after it was found.
var errGone = errors.New("it was removed meanwhile")

// Obtain returns the existing sandbox that fits a plan, or makes it. A request with Remove always makes
// one. If another process is making it, Obtain waits. If it is removed meanwhile, Obtain makes the plan
// anew. The error is of class [spec.ErrConflict] if the sandbox exists with other settings than the request
// names, and the cause of a canceled ctx. The caller then calls [Provisioner.Start].
func (p *Provisioner) Obtain(ctx context.Context, pl *Plan) (Target, error) {
	defer p.Engine.Images().Release() // also if no sandbox is made: this process may live on
	p = &Provisioner{Engine: p.Engine, Settings: p.Settings, Watcher: noteOnce(p.Watcher, pl.Notes)}
	at, err := p.obtain(ctx, pl)
	for errors.Is(err, errGone) && ctx.Err() == nil {
		if err = p.renewPlan(pl); err == nil {
			at, err = p.obtain(ctx, pl)
		}
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return at, err
}

// obtain is Obtain once. The error is errGone if the sandbox was removed meanwhile.
func (p *Provisioner) obtain(ctx context.Context, pl *Plan) (Target, error) {
	if pl.named {
		return p.joinExisting(ctx, pl.Existing, pl)
	}
	if err := p.prepare(ctx, pl); err != nil {
		return Target{}, err
	}
	sb, created, err := pl.Sandbox, true, error(nil)
	if pl.Request.Remove {
		err = p.Engine.Create(ctx, pl.Sandbox, p.contents(pl)...)
	} else {
		sb, created, err = p.Engine.Obtain(ctx, pl.Sandbox, p.contents(pl)...)
	}
	switch {
	case err != nil:
		return Target{}, err
	case created && !pl.makesSandbox(): // it was removed since, and the new one has no program
		defer p.Engine.LeaveUnfinished(sb)
		if err := p.Engine.Remove(context.WithoutCancel(ctx), sb, true); err != nil {
			return Target{}, err
		}
		return Target{}, errGone
	case created:
		p.tellCreated(ctx, pl)
		at := pl.target(sb)
		at.Created = true
		return at, nil
	}
	return p.joinExisting(ctx, sb, pl)
}

// planExisting plans to use an existing sandbox for a request, if the request names no settings that are fixed at
// creation.
func (p *Provisioner) planExisting(sb *spec.Sandbox, req spec.Request) (*Plan, error) {
	ref, err := AgentOf(p.Engine, sb)
	if err != nil {
		return nil, err
	}
	pl := &Plan{Request: req, Agent: ref, Existing: sb, named: true}
	for _, decide := range []func(*Plan) error{p.decideLoans, p.decideRules, p.checkVersion, p.checkACP, p.checkConfig, p.decideMock} {
		if err := decide(pl); err != nil {
			return nil, err
		}
	}
	return pl, nil
}

// joinExisting waits for the creator of a sandbox, and takes the sandbox if it fits. If it was removed, the error
// is errGone, unless the plan is for this very sandbox.
func (p *Provisioner) joinExisting(ctx context.Context, sb *spec.Sandbox, pl *Plan) (Target, error) {
	adopted, err := p.Engine.Adopt(ctx, sb, pl.named)
	if errors.Is(err, spec.ErrNotFound) && !pl.named {
		err = errGone
	}
	if err == nil {
		err = p.fitExisting(ctx, sb, pl)
	}
	if err != nil {
		p.Engine.LeaveUnfinished(sb)
		return Target{}, err
	}
	at := pl.target(sb)
	at.Adopted = adopted
	return at, nil
}

// fitExisting refuses a request for an existing sandbox that was made with other settings. Otherwise it gives the
// sandbox the settings that may change: the version of its agent, and the script of its mock.
func (p *Provisioner) fitExisting(ctx context.Context, sb *spec.Sandbox, pl *Plan) error {
	if err := hasRules(p.Engine, sb, pl.asked); err != nil {
		return err
	}
	if err := p.checkZero(sb, pl.Request.Zero); err != nil {
		return err
	}
	if err := sameSettings(sb, &pl.Request, pl.Sandbox); err != nil {
		return err
	}
	if err := p.playMock(ctx, sb, pl.Mock); err != nil {
		return err
	}
	if err := p.switchVersion(ctx, pl.Agent, sb, pl.Request.Version); err != nil || !pl.Request.ACP {
		return err
	}
	return p.giveAdapter(ctx, pl.Agent.Spec, sb)
}

// playMock makes an existing sandbox use the requested script. A sandbox made with a mock keeps it, and
// one made without cannot get one: its keys, real or made up, are in its home.
func (p *Provisioner) playMock(ctx context.Context, sb *spec.Sandbox, m *modelmock.Mock) error {
	switch {
	case m == nil && sb.Mock == nil, sb.Broken != "":
		return nil
	case m == nil:
		p.Watcher.Note("%s", modelmock.Note(sb))
		return nil
	case sb.Mock == nil:
		return spec.Errorf(spec.ErrConflict, "sandbox %s exists without a mock", sb.Name).
			WithHint("choose another %s, or remove it first: bothy rm %s", spec.Option("name"), sb.Name)
	}
	return reconfigure.Mock(ctx, p.Engine, sb, m)
}

// switchVersion gives an existing sandbox the requested version of its agent.
func (p *Provisioner) switchVersion(ctx context.Context, ref *AgentRef, sb *spec.Sandbox, version string) error {
	if version == "" {
		return nil
	}
	if err := reconfigure.CheckVersion(p.Engine, sb, version); err != nil {
		return err
	}
	program, err := p.Install(ctx, ref.Spec, sb, version)
	if err != nil {
		return err
	}
	return reconfigure.Program(ctx, p.Engine, sb, program)
}

// hasRules refuses to use a sandbox whose own rules lack a requested one. Rules added later by bothy
// policy are fine.
func hasRules(e *engine.Engine, sb *spec.Sandbox, asked policy.Block) error {
	if len(asked.Presets)+len(asked.Allow)+len(asked.Deny) == 0 || sb.Broken != "" {
		return nil
	}
	has, err := e.Rules().Has(sb, asked)
	if err == nil && !has {
		err = spec.Errorf(spec.ErrConflict, "sandbox %s exists with other network rules", sb.Name).
			WithHint("they can be changed: bothy policy allow|deny TARGET or --preset NAME, with --sandbox %s; bothy policy ls --sandbox %s shows them", sb.Name, sb.Name)
	}
	return err
}

// sameSettings refuses a request for an existing sandbox that was created with other settings. Otherwise
// a limit or a :ro would be ignored silently. wish is the sandbox that the request would make; nil if the
// sandbox was named, and then no such setting may be requested.
func sameSettings(sb *spec.Sandbox, req *spec.Request, wish *spec.Sandbox) error {
	differs := func(what string, options ...any) *spec.Error { return differs(sb, what, options...) }
	if wish == nil {
		if name := firstFixed(req); name != "" {
			return differs("settings (%s)", spec.Option(name))
		}
		return nil
	}
	if !slices.Equal(sb.Workspaces, wish.Workspaces) && !(len(wish.Workspaces) == 1 && len(sb.Workspaces) > 0 && sb.Workspaces[0] == wish.Workspaces[0]) {
		return differs("directories")
	}
	switch {
	case req.WorkspaceMode != "" && sb.Mode() != wish.Mode():
		return differs("workspace mode (" + sb.Mode() + ")")
	case req.Template != "" && !sameTemplate(sb, wish):
		return differs("template")
	case req.Template != "" && !sb.Devcontainer.Equal(wish.Devcontainer):
		return differs("commands or variables of its devcontainer.json")
	case req.Config != nil && sb.Config != wish.Config:
		return differs("configuration of its agent")
	case len(req.Volumes) > 0 && !slices.Equal(sb.Volumes, wish.Volumes):
		return differs("volumes")
	case len(req.Private) > 0 && !slices.Equal(sb.Private, wish.Private):
		return differs("private directories")
	case !sameLimits(sb.Limits, req.Limits):
		return differs("limits")
	case !containsAll(sb.Ports, wish.Ports):
		return differs("published ports").WithHint("bothy ports %s --publish adds one", sb.Name)
	case !containsAll(sb.HostPorts, askedPorts(wish)):
		return differs("ports of the host").WithHint("bothy ports %s --allow-host-port adds one", sb.Name)
	case namesServer(req) && !sameServer(sb, wish):
		return differs("models to ask (%s)", spec.Option("model-server"))
	case req.Tasks != "" && sb.Tasks != wish.Tasks:
		return differs("access to tasks")
	case req.Docker != nil && sb.Docker != wish.Docker:
		return differs("settings (%s)", spec.Option("docker"))
	case req.Checkpoint != "" && sb.Checkpoint != wish.Checkpoint:
		return differs("checkpoints").WithHint("bothy checkpoint auto %s changes when they are made", sb.Name)
	case req.Budget.Tokens != 0 && sb.Budget.Tokens != wish.Budget.Tokens, req.Budget.USD != 0 && sb.Budget.USD != wish.Budget.USD:
		return differsBudget(sb)
	case req.IdleTimeout != 0 && sb.IdleTimeout != wish.IdleTimeout:
		return differs("idle timeout")
	}
	return nil
}

// checkZero refuses a request for no limit, if the sandbox has that limit.
func (p *Provisioner) checkZero(sb *spec.Sandbox, names []string) error {
	for _, name := range names {
		switch {
		case name == "cpus" && sb.Limits.CPUs != 0, name == "pids" && sb.Limits.Pids != 0:
			return differs(sb, "limits")
		case name == "idle-timeout" && sb.IdleTimeout != p.Settings.IdleTimeout():
			return differs(sb, "idle timeout")
		case name == "max-tokens" && sb.Budget.Tokens != 0, name == "max-cost" && sb.Budget.USD != 0:
			return differsBudget(sb)
		}
	}
	return nil
}

func differsBudget(sb *spec.Sandbox) *spec.Error {
	return differs(sb, "budget").WithHint("bothy cost %s --max-tokens or --max-cost changes it", sb.Name)
}

// differs returns the error for a setting that an existing sandbox has otherwise, and that is fixed at its
// creation.
func differs(sb *spec.Sandbox, what string, options ...any) *spec.Error {
	return spec.Errorf(spec.ErrConflict, "sandbox %s exists with other "+what, append([]any{sb.Name}, options...)...).
		WithHint("what a sandbox is made of is fixed at its creation; remove it first (bothy rm %s) or choose another %s", sb.Name, spec.Option("name"))
}

// firstFixed returns the option of the first setting of a request that is fixed at creation, or "".
func firstFixed(req *spec.Request) string {
	for _, s := range []struct {
		name string
		set  bool
	}{
		{"volume", len(req.Volumes) > 0},
		{"private", len(req.Private) > 0},
		{"cpus", req.Limits.CPUs != 0},
		{"memory", req.Limits.Memory != 0},
		{"pids", req.Limits.Pids != 0},
		{"disk", req.Limits.Disk != 0},
		{"idle-timeout", req.IdleTimeout != 0},
		{"publish", len(req.Publish) > 0},
		{"allow-host-port", len(req.HostPorts) > 0},
		{"template", req.Template != ""},
		{"agent-config", req.Config != nil},
		{"force-workspace", req.ForceWorkspace},
		{"workspace", req.WorkspaceMode != ""},
		{"git-dir", req.GitDir != ""},
		{"checkpoint", req.Checkpoint != ""},
		{"max-tokens", req.Budget.Tokens != 0},
		{"max-cost", req.Budget.USD != 0},
		{"share-tasks", req.Tasks != ""},
		{"model-server", req.ModelServer != ""},
		{"model-key", req.ModelKey != ""},
		{"server-model", req.ServerModel != ""},
		{"docker", req.Docker != nil},
	} {
		if s.set {
			return s.name
		}
	}
	return ""
}

// sameLimits reports whether a sandbox has each of the requested limits.
func sameLimits(has, asked spec.Limits) bool {
	return (asked.CPUs == 0 || has.CPUs == asked.CPUs) && (asked.Memory == 0 || has.Memory == asked.Memory) &&
		(asked.Pids == 0 || has.Pids == asked.Pids) && (asked.Disk == 0 || has.Disk == asked.Disk)
}

// askedPorts returns the host ports that the user requested, without the one implied by a model server.
func askedPorts(wish *spec.Sandbox) []uint16 {
	s := wish.ModelServer
	return slices.DeleteFunc(slices.Clone(wish.HostPorts), func(p uint16) bool { return s != nil && s.IsLocal() && p == s.Port() })
}

// sameServer reports whether two sandboxes ask the same server.
func sameServer(sb, wish *spec.Sandbox) bool {
	a, b := sb.ModelServer, wish.ModelServer
	return a == b || a != nil && b != nil && *a == *b
}

func containsAll[T comparable](have, want []T) bool {
	return !slices.ContainsFunc(want, func(w T) bool { return !slices.Contains(have, w) })
}

// sameTemplate reports whether two sandboxes start from the same template: the same name, or the
// same image, which may come from a file without the name.
func sameTemplate(a, b *spec.Sandbox) bool {
	image := func(sb *spec.Sandbox) bool {
		return sb.Image != nil && (sb.Template == sb.Image.Name || sb.Template == sb.Image.Digest)
	}
	return a.Template == b.Template || image(a) && image(b) && a.Image.Digest == b.Image.Digest
}
