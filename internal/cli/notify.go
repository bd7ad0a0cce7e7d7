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
	if err := e.Notify(context.WithoutCancel(ctx), a.config.Notify, n); err != nil { // it may be a signal that ended the run
		a.note("%v", err)
	}
}
