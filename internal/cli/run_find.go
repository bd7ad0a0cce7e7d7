package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/modelmock"
	"github.com/bothy-dev/bothy/internal/provision"
	"github.com/bothy-dev/bothy/spec"
)

// runTarget is the sandbox to run in, and the settings of the command for it.
type runTarget struct {
	provision.Target
	agent *provision.AgentRef
	loans provision.Loans
	mock  *modelmock.Mock // the script to use; nil: any
	named []spec.Named    // the paths of the command line that lead through links
	env   []string        // the variables of the command line; a file of them may be a pipe, and is read once
}

// findTarget returns the sandbox to run in, and creates it if it does not exist. With --rm it always creates a
// new one. If another command is creating it, findTarget waits. If it is removed meanwhile, findTarget starts again.
func (a *app) findTarget(ctx context.Context, cmd *cobra.Command, e *engine.Engine, f *runFlags) (at runTarget, err error) {
	req, err := f.Request(a.App, f.agent, f.paths)
	if err != nil {
		return at, err
	}
	req.Remove = f.remove
	p := a.Provisioner(e)
	err = provision.ErrGone
	for errors.Is(err, provision.ErrGone) {
		if f.existing != nil {
			at, err = comeBack(ctx, p, f.existing, req)
		} else {
			at, err = a.obtain(ctx, cmd, p, req)
		}
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	at.env = req.Env
	return at, err
}

// comeBack runs in a sandbox that the user named.
func comeBack(ctx context.Context, p *provision.Provisioner, sb *spec.Sandbox, req spec.Request) (at runTarget, err error) {
	if at.agent, err = provision.AgentOf(p.Engine, sb); err != nil {
		return at, err
	}
	if at.loans, err = p.LoansOf(&req); err != nil {
		return at, err
	}
	at.Target, at.mock, err = p.Join(ctx, at.agent, sb, req)
	return at, err
}

// obtain runs in the sandbox of an agent in a directory.
func (a *app) obtain(ctx context.Context, cmd *cobra.Command, p *provision.Provisioner, req spec.Request) (at runTarget, err error) {
	pl, err := a.Plan(p, req, !req.Remove)
	if _, ok := errors.AsType[provision.PathError](err); ok && errors.Is(err, spec.ErrNotFound) {
		return at, commandMeant(cmd, req.Agent, req.Workspaces, err)
	}
	if err != nil {
		return at, err
	}
	at = runTarget{agent: pl.Agent, loans: pl.Loans, mock: pl.Mock, named: pl.Sandbox.Named}
	at.Target, err = p.Obtain(ctx, pl)
	if at.Created {
		a.AdviseGit(cmd, pl)
	}
	return at, err
}
