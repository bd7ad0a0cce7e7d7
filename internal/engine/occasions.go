package engine

import (
	"context"
	"errors"

	"github.com/bothy-dev/bothy/internal/keeperclient"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// CheckpointWhen sets when automatic checkpoints of a sandbox are made, also of one that runs.
func (e *Engine) CheckpointWhen(ctx context.Context, sb *spec.Sandbox, when spec.Occasions) error {
	lock, err := e.Store.PolicyLock() // every change of a spec takes it
	if err != nil {
		return err
	}
	defer lock.Unlock()
	changed, err := e.Store.Load(sb.ID)
	if err != nil {
		return err
	}
	changed.Checkpoint = when.String()
	write := func() error { return store.WriteJSON(e.Store.Sandbox(sb.ID).Spec(), changed) }
	err = e.Keepers().Tell(ctx, sb, func(ctx context.Context, c *unixconn.Conn) error {
		if err := write(); err != nil {
			c.Close()
			return err
		}
		err := keeperclient.OrderKept(ctx, sb, c, wire.Ask{Op: wire.OpChanged})
		if errors.Is(err, spec.ErrUsage) { // its keeper is of an older Bothy that does not know this request
			e.say("sandbox %s does so from its next start on", sb.Name)
			return nil
		}
		if err == nil {
			e.sayRunning(changed)
		}
		return err
	}, write)
	if err != nil {
		return &spec.Error{Op: "change when checkpoints of " + sb.Name + " are made", Err: err}
	}
	return nil
}
