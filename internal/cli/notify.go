package cli

import (
	"context"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/term"
)

// tellOf has the user's program hear that a loop is carried on no more. That it
// cannot be told is said, and changes nothing.
func (a *app) tellOf(ctx context.Context, e *engine.Engine, run string, p *loop.Plan, s *loop.State) {
	a.notify(ctx, e, engine.Notice{
		Run: run, Kind: "loop", Status: string(s.Status), Reason: s.Reason, Detail: term.Sanitize(s.Detail), Directory: p.Directory,
	})
}

func (a *app) notify(ctx context.Context, e *engine.Engine, n engine.Notice) {
	if len(a.config.Notify) == 0 {
		return
	}
	if err := e.Notify(context.WithoutCancel(ctx), a.config.Notify, n); err != nil { // it may be a signal that ended the run
		a.note("%v", err)
	}
}
