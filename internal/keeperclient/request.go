package keeperclient

import (
	"context"
	"errors"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// Request sends a request and waits for its answer.
func Request(ctx context.Context, c *unixconn.Conn, ask wire.Ask) error {
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if err := c.SendJSON(wire.Request, ask); err != nil {
		return err
	}
	return c.Expect(wire.Reply, &struct{}{})
}

// Order is Request to a keeper that has no reason to end meanwhile.
func Order(ctx context.Context, sb *spec.Sandbox, c *unixconn.Conn, ask wire.Ask) error {
	return requestOr(ctx, c, ask, spec.Errorf(spec.ErrSandbox, "sandbox %s ended before it answered", sb.Name).
		WithHint("bothy inspect %s tells why; the next command starts it again", sb.Name))
}

// OrderKept is Order for a change that is on the disk already. A keeper that ends before it answers may
// not have read it; this counts as the answer that it is stopping.
func OrderKept(ctx context.Context, sb *spec.Sandbox, c *unixconn.Conn, ask wire.Ask) error {
	return requestOr(ctx, c, ask, spec.Errorf(spec.ErrStopping, "sandbox %s ended before it answered", sb.Name))
}

// requestOr is Request with a special error for a keeper that ends before it answers.
func requestOr(ctx context.Context, c *unixconn.Conn, ask wire.Ask, ended error) error {
	err := Request(ctx, c, ask)
	if _, said := errors.AsType[*spec.Error](err); err == nil || said || ctx.Err() != nil {
		return err
	}
	return ended
}

// AskToSave asks a keeper to save the root layer of its sandbox.
func AskToSave(c *unixconn.Conn) error {
	if err := c.SendJSON(wire.Request, wire.Ask{Op: wire.OpSave}); err != nil {
		return spec.ErrStopping
	}
	return c.Expect(wire.Reply, &spec.RootLayer{})
}
