package engine

import (
	"context"
	"errors"
	"io/fs"

	"github.com/bothy-dev/bothy/internal/keeperclient"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// Bill returns the use of models by a sandbox over its whole life. It includes the part of an
// answer that a program inside has read.
func (e *Engine) Bill(ctx context.Context, sb *spec.Sandbox) (spec.Bill, error) {
	var b spec.Bill
	err := e.Keepers().Tell(ctx, sb, func(ctx context.Context, c *unixconn.Conn) error {
		defer c.Close()
		defer context.AfterFunc(ctx, func() { c.Close() })()
		if err := c.SendJSON(wire.Request, wire.Ask{Op: wire.OpBill}); err != nil {
			return err
		}
		return c.Expect(wire.Reply, &b)
	}, func() (err error) {
		b, err = e.WrittenBill(sb)
		return err
	})
	if err != nil {
		return b, &spec.Error{Op: "read what models have taken for " + sb.Name, Err: err}
	}
	return b, nil
}

// WrittenBill returns the bill on the disk, also for a sandbox whose keeper does not answer.
func (e *Engine) WrittenBill(sb *spec.Sandbox) (b spec.Bill, err error) {
	err = store.ReadJSON(e.Store.Sandbox(sb.ID).Bill(), &b)
	if errors.Is(err, fs.ErrNotExist) {
		return spec.Bill{}, nil
	}
	return b, err
}

// SetBudget limits the use of models by a sandbox, also by one that runs.
func (e *Engine) SetBudget(ctx context.Context, sb *spec.Sandbox, b spec.Budget) error {
	lock, err := e.Store.PolicyLock() // every change of a spec takes it
	if err != nil {
		return err
	}
	defer lock.Unlock()
	changed, err := e.Store.Load(sb.ID)
	if err != nil {
		return err
	}
	changed.Budget = b
	write := func() error { return store.WriteJSON(e.Store.Sandbox(sb.ID).Spec(), changed) }
	err = e.Keepers().Tell(ctx, sb, func(ctx context.Context, c *unixconn.Conn) error {
		if err := write(); err != nil {
			c.Close()
			return err
		}
		return keeperclient.OrderKept(ctx, sb, c, wire.Ask{Op: wire.OpBudget, Budget: b})
	}, write)
	if err != nil {
		return &spec.Error{Op: "change the budget of " + sb.Name, Err: err}
	}
	sb.Budget = b
	return nil
}
