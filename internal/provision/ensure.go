package provision

import (
	"context"
	"slices"

	"github.com/bothy-dev/bothy/spec"
)

// Ensure returns the sandbox with the name of a request. It makes the sandbox if none exists, or finishes one
// whose creator was killed; made says that it did. Of several concurrent callers one makes it, and the others
// wait. The error is of class [spec.ErrConflict] if the sandbox exists with other settings than the request
// names. It passes the plan's notes to the watcher.
func (p *Provisioner) Ensure(ctx context.Context, req spec.Request) (sb *spec.Sandbox, made bool, err error) {
	if err := spec.CheckName(req.Name); err != nil {
		return nil, false, err
	}
	if req.Remove {
		return nil, false, spec.Errorf(spec.ErrUsage, "a sandbox that is kept by its name cannot be removed after its first command").
			WithHint("leave out remove")
	}
	pl, err := p.Plan(req, true)
	if err == nil && pl.Existing != nil {
		err = sameMaker(pl.Existing, pl)
	}
	if err != nil {
		return nil, false, err
	}
	for _, note := range pl.Notes {
		p.Watcher.Note("%s", note)
	}
	at, err := p.Obtain(ctx, pl)
	if err != nil {
		return nil, false, err
	}
	if err := sameMaker(at.Sandbox, pl); err != nil { // another caller was faster
		p.Engine.LeaveUnfinished(at.Sandbox)
		return nil, false, err
	}
	if at.IsNew() {
		err = p.endCreation(at, p.lendLoans(ctx, at))
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return at.Sandbox, at.IsNew(), err
}

// sameMaker refuses an existing sandbox with another agent, user, directory or variables than the request
// names. A command line sets these for each command; a request for a sandbox by its name has no command.
func sameMaker(sb *spec.Sandbox, pl *Plan) error {
	req := &pl.Request
	switch {
	case sb == pl.Sandbox, sb.Broken != "":
		return nil
	case sb.Agent != pl.Agent.Name:
		return differs(sb, "agent ("+sb.Agent+")")
	case req.User != "" && sb.User != req.User:
		return differs(sb, "user")
	case req.Workdir != "" && sb.Workdir != req.Workdir:
		return differs(sb, "directory to work in")
	case slices.ContainsFunc(req.Env, func(kv string) bool { return !slices.Contains(sb.Env, kv) }):
		return differs(sb, "variables")
	}
	return nil
}
