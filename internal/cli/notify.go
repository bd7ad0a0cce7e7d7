package cli

import (
	"context"

	"github.com/bothy-dev/bothy/internal/engine"
)

// notify has the user's program hear of a run. That it cannot be told is said, and
// changes nothing.
func (a *app) notify(ctx context.Context, e *engine.Engine, n engine.Notice) {
	if len(a.config.Notify) == 0 {
		return
	}
	if err := e.Notify(ctx, a.config.Notify, n); err != nil && ctx.Err() == nil {
		a.note("%v", err)
	}
}
