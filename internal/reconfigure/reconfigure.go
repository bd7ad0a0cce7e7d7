// Package reconfigure changes the settings of existing sandboxes, also of those that run: ports, budget,
// occasions of checkpoints, the script of a mock, and the program of the agent.
package reconfigure

import (
	"context"
	"errors"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/keeperclient"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// Checkpoints sets when automatic checkpoints of a sandbox are made, also of one that runs.
func Checkpoints(ctx context.Context, e *engine.Engine, sb *spec.Sandbox, when spec.Occasions) error {
	err := changeSpec(ctx, e, sb, func(sb *spec.Sandbox) { sb.Checkpoint = when.String() }, func(ctx context.Context, changed *spec.Sandbox, c *unixconn.Conn) error {
		err := keeperclient.OrderKept(ctx, sb, c, wire.Ask{Op: wire.OpChanged})
		if errors.Is(err, spec.ErrUsage) { // its keeper is of an older Bothy that does not know this request
			e.Say("sandbox %s does so from its next start on", sb.Name)
			return nil
		}
		if err == nil {
			e.TellRunning(changed)
		}
		return err
	})
	if err != nil {
		return &spec.Error{Op: "change when checkpoints of " + sb.Name + " are made", Err: err}
	}
	return nil
}

// changeSpec changes the description of a sandbox on the disk. If the sandbox runs, changeSpec then calls tell
// with its keeper.
func changeSpec(ctx context.Context, e *engine.Engine, sb *spec.Sandbox, change func(*spec.Sandbox), tell func(ctx context.Context, changed *spec.Sandbox, c *unixconn.Conn) error) error {
	lock, err := e.Store.PolicyLock() // every change of a description takes it
	if err != nil {
		return err
	}
	defer lock.Unlock()
	changed, err := e.Store.Load(sb.ID)
	if err != nil {
		return err
	}
	change(changed)
	write := func() error { return store.WriteJSON(e.Store.Sandbox(sb.ID).Spec(), changed) }
	return e.Keepers().Tell(ctx, sb, func(ctx context.Context, c *unixconn.Conn) error {
		if err := write(); err != nil {
			c.Close()
			return err
		}
		return tell(ctx, changed, c)
	}, write)
}
