package cli

import (
	"context"
	"sync"
	"time"

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

// herald has the user's program hear of a run that waits for long: once of each wait, and
// without the run waiting for the program.
type herald struct {
	app    *app
	engine *engine.Engine
	notice engine.Notice // of the run
	told   time.Time     // since when it waits, of what was told last
	under  sync.WaitGroup
}

// look tells how a run stands, if that is to be told. One goroutine calls it.
func (h *herald) look(ctx context.Context, w waiter) {
	d, waits := w.Waits()
	if !waits || !d.Long() || d.Since.Equal(h.told) || !d.Until.After(time.Now()) {
		return
	}
	h.told = d.Since
	n := h.notice
	n.Status, n.Reason, n.Detail, n.Until = "running", d.For, delayReason(d), d.Until
	h.under.Go(func() { h.app.notify(ctx, h.engine, n) })
}

// end waits until what was told was heard: what the run comes to is told after that.
func (h *herald) end() { h.under.Wait() }
