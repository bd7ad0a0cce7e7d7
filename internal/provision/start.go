package provision

import (
	"context"

	"github.com/bothy-dev/bothy/internal/headless"
	"github.com/bothy-dev/bothy/internal/modelmock"
	"github.com/bothy-dev/bothy/internal/reconfigure"
	"github.com/bothy-dev/bothy/internal/setup"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// Target is the sandbox that a plan led to. It is still being made if it was created, or adopted from a
// creator that left it unfinished: [Provisioner.Start] ends that.
type Target struct {
	Sandbox          *spec.Sandbox
	Agent            *AgentRef
	Created, Adopted bool
	Named            []spec.Named // paths of the request that lead through links

	loans Loans
	mock  *modelmock.Mock // the script to use; nil: any
}

// IsNew reports whether the sandbox is still being made.
func (t Target) IsNew() bool { return t.Created || t.Adopted }

// target returns a sandbox with the loans and the script of the plan.
func (pl *Plan) target(sb *spec.Sandbox) Target {
	at := Target{Sandbox: sb, Agent: pl.Agent, loans: pl.Loans, mock: pl.Mock}
	if pl.Sandbox != nil {
		at.Named = pl.Sandbox.Named
	}
	return at
}

// Start lends a sandbox its loans, starts it unless it runs, and runs the due parts of its set-up. It returns a
// session for the caller's programs, which the caller closes. With attaches the programs are for a person's
// terminal, and that person can be asked.
//
// If a sandbox that was just created cannot be started, it is removed, unless another process waits for it or
// the request was with Remove: then its creator removes it. If its set-up fails, it stays. The error is the cause
// of a canceled ctx.
func (p *Provisioner) Start(ctx context.Context, at Target, attaches bool) (headless.Session, error) {
	err := p.lendLoans(ctx, at)
	var conn *unixconn.Conn
	if err == nil {
		conn, err = p.Engine.Connect(ctx, at.Sandbox)
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	err = p.endCreation(at, err)
	if err == nil {
		err = reconfigure.CheckMock(p.Engine, at.Sandbox, at.mock) // another command was faster, with another script
	}
	in := headless.Session{Engine: p.Engine, Sandbox: at.Sandbox, Conn: conn}
	if err == nil && (at.Created || !at.Sandbox.Remove) { // a sandbox of one command is set up by its creator
		err = p.setUpIn(ctx, &in, attaches)
	}
	if err != nil {
		in.Close()
	}
	return in, err
}

// endCreation ends the creation of a sandbox: it is complete, or could not be completed because of err. A sandbox
// that was just created is removed in that case, unless another process waits for it.
func (p *Provisioner) endCreation(at Target, err error) error {
	if err == nil || at.Created && !at.Sandbox.Remove {
		return p.Engine.EndCreation(at.Sandbox, err)
	}
	p.Engine.LeaveUnfinished(at.Sandbox)
	return err
}

// Enter starts an existing sandbox for a command of a program or a person, unless it runs, and first runs the due
// parts of its set-up. It returns a session for the command, which the caller closes. It runs nothing before the
// command with skipSetUp, and in a sandbox of one command, which its creator sets up. The error is the cause of
// a canceled ctx.
func (p *Provisioner) Enter(ctx context.Context, sb *spec.Sandbox, command *wire.Command, skipSetUp bool) (headless.Session, error) {
	in := headless.Session{Engine: p.Engine, Sandbox: sb}
	err := headless.CheckCommand(command)
	if err != nil {
		return in, err
	}
	in.Conn, err = p.Engine.Connect(ctx, sb)
	if err == nil && !skipSetUp && !sb.Remove {
		err = p.setUpIn(ctx, &in, false)
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		in.Close()
	}
	return in, err
}

// SetUp runs the due parts of a sandbox's set-up, for work that no person attends.
func (p *Provisioner) SetUp(ctx context.Context, sb *spec.Sandbox) error {
	v := p.Watcher.SettingUp()
	v.Ask = nil
	return setup.Run(ctx, p.Engine, sb, false, v)
}

// setUpIn runs the due parts of the set-up of a session's sandbox. It closes the session's conversation if it runs
// anything, because the conversation may belong to a start that is over.
func (p *Provisioner) setUpIn(ctx context.Context, in *headless.Session, attaches bool) error {
	if !setup.IsNeeded(in.Sandbox) {
		return nil
	}
	defer in.Close()
	v := p.Watcher.SettingUp()
	if !attaches {
		v.Ask = nil
	}
	return setup.Run(ctx, p.Engine, in.Sandbox, attaches, v)
}
