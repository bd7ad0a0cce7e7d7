package provision

import (
	"cmp"
	"context"
	"slices"

	"github.com/bothy-dev/bothy/internal/agentprogram"
	"github.com/bothy-dev/bothy/internal/netrules"
	"github.com/bothy-dev/bothy/internal/reconfigure"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/template"
	"github.com/bothy-dev/bothy/spec"
)

// Create makes the sandbox of a plan and lends it its loans. It calls before, which may be nil, after all
// checks and before the sandbox exists; before may change the plan's sandbox. If Create fails, the sandbox
// is removed again.
func (p *Provisioner) Create(ctx context.Context, pl *Plan, before func(*spec.Sandbox) error) (*spec.Sandbox, error) {
	defer p.Engine.Images().Release() // also if no sandbox is made: this process may live on
	if err := p.prepare(ctx, pl); err != nil {
		return nil, err
	}
	sb := pl.Sandbox
	if before != nil {
		if err := before(sb); err != nil {
			return nil, err
		}
	}
	if err := p.Engine.Create(ctx, sb, p.contents(pl)...); err != nil {
		return nil, err
	}
	p.tellCreated(ctx, pl)
	at := pl.target(sb)
	at.Created = true
	if err := p.endCreation(at, p.lendLoans(ctx, at)); err != nil {
		return nil, err
	}
	return sb, nil
}

// prepare gets what the sandbox of a plan needs from outside: its template, and the program of its agent.
func (p *Provisioner) prepare(ctx context.Context, pl *Plan) error {
	sb := pl.Sandbox
	wish := template.Wish{Word: cmp.Or(pl.Request.Template, spec.TemplateHost), Pull: cmp.Or(pl.Request.Pull, spec.PullMissing), Rules: pl.asked}
	if err := p.templates().Resolve(ctx, wish, sb); err != nil {
		return err
	}
	sb.Docker = sb.Docker || p.Engine.Templates().AsksForDocker(sb)
	if pl.Request.Docker != nil {
		sb.Docker = *pl.Request.Docker
	}
	if !pl.makesSandbox() || sb.Program != nil {
		return nil
	}
	var err error
	if sb.Program, err = p.Install(ctx, pl.Agent.Spec, sb, pl.Request.Version); err == nil && pl.Request.ACP {
		sb.Adapter, err = p.installAdapter(ctx, pl.Agent.Spec, sb)
	}
	return err
}

// installAdapter returns the program that speaks with editors for the agent of a sandbox, and installs it
// if necessary. It is nil if the agent speaks itself.
func (p *Provisioner) installAdapter(ctx context.Context, of *spec.Agent, sb *spec.Sandbox) (*spec.Program, error) {
	return p.installBy(ctx, sb, func(g agentprogram.Ground, step agentprogram.Progress) (*spec.Program, []string, error) {
		return p.Engine.Programs().Adapter(ctx, of, sb, g, step)
	})
}

// giveAdapter prepares an existing sandbox for an editor.
func (p *Provisioner) giveAdapter(ctx context.Context, of *spec.Agent, sb *spec.Sandbox) error {
	adapter, err := p.installAdapter(ctx, of, sb)
	if err != nil || adapter == nil {
		return err
	}
	return reconfigure.Adapter(ctx, p.Engine, sb, adapter)
}

// contents returns the functions that write the first contents of the sandbox's directory.
func (p *Provisioner) contents(pl *Plan) []func(store.Sandbox) error {
	return []func(store.Sandbox) error{netrules.First(pl.Rules), pl.Mock.Write, p.Engine.MarkUnfinished(pl.Sandbox)}
}

// tellCreated notes what a person should know about a sandbox that was just created.
func (p *Provisioner) tellCreated(ctx context.Context, pl *Plan) {
	notes := serverNotes(ctx, pl.Agent.Spec, pl.Sandbox)
	notes = append(notes, IneffectiveRules(p.Engine, pl.Sandbox, slices.Concat(pl.Rules.Allow, pl.Rules.Deny))...)
	for _, note := range notes {
		p.Watcher.Note("%s", note)
	}
}

// Install returns the program that a sandbox of an agent is to use, and installs it if necessary. It
// returns nil for a shell, and for an agent whose program is in the template. The cause of a canceled ctx
// is its error.
func (p *Provisioner) Install(ctx context.Context, of *spec.Agent, sb *spec.Sandbox, version string) (*spec.Program, error) {
	if of == nil {
		return nil, nil
	}
	return p.installBy(ctx, sb, func(g agentprogram.Ground, step agentprogram.Progress) (*spec.Program, []string, error) {
		return p.Engine.Programs().Choose(ctx, of, g, version, step)
	})
}

// installBy chooses a program for a sandbox, and shows the progress. The cause of a canceled ctx is its
// error.
func (p *Provisioner) installBy(ctx context.Context, sb *spec.Sandbox, choose func(agentprogram.Ground, agentprogram.Progress) (*spec.Program, []string, error)) (*spec.Program, error) {
	ground, err := p.Engine.Programs().GroundOf(ctx, sb)
	if err != nil {
		return nil, err
	}
	step, end := p.Watcher.Installing()
	program, notices, err := choose(ground, step)
	end()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for _, n := range notices {
		p.Watcher.Note("%s", n)
	}
	return program, err
}
