package reconfigure

import (
	"context"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/keeperclient"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// Budget limits the use of models by a sandbox, also by one that runs.
func Budget(ctx context.Context, e *engine.Engine, sb *spec.Sandbox, b spec.Budget) error {
	err := changeSpec(ctx, e, sb, func(sb *spec.Sandbox) { sb.Budget = b }, func(ctx context.Context, _ *spec.Sandbox, c *unixconn.Conn) error {
		return keeperclient.OrderKept(ctx, sb, c, wire.Ask{Op: wire.OpBudget, Budget: b})
	})
	if err != nil {
		return &spec.Error{Op: "change the budget of " + sb.Name, Err: err}
	}
	sb.Budget = b
	return nil
}
