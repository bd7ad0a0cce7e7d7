package cli

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/run"
)

// notify has the user's program hear of a run. That it cannot be told is said, and
// changes nothing.
func (a *app) notify(ctx context.Context, e *engine.Engine, n engine.Notice) {
	if len(a.config.Notify) == 0 {
		return
	}
	if err := e.Notify(ctx, a.config.Notify, n); err != nil && ctx.Err() == nil {
		a.Note("%v", err)
	}
}

// herald has the user's program hear of a run while that is carried on: that it is, and of
// each wait that is long. The run does not wait for the program, and what happens first is
// told first.
type herald struct {
	app    *app
	engine *engine.Engine
	notice engine.Notice // of the run
	waits  time.Time     // since when, of the wait that was told last; zero: it is over

	mu   sync.Mutex
	last <-chan struct{} // closed when what was told last was heard
}

// began tells that a process carries the run on from here; of a run with these events.
func (h *herald) began(ctx context.Context, kind string, before []run.Event) {
	n := h.notice
	n.Event, n.Status = engine.EventBegan, "running"
	if slices.ContainsFunc(before, func(ev run.Event) bool { return ev.Type == kind }) {
		n.Event = engine.EventResumed
	}
	h.tell(context.WithoutCancel(ctx), n)
}

// patient is a run that may have to wait for models.
type patient interface {
	waiter
	Denied() bool // whether none has answered since one did not
}

// look tells how a run stands, if that is to be told: once of each wait, and of its end.
// One goroutine calls it.
func (h *herald) look(ctx context.Context, p patient) {
	n := h.notice
	n.Status = "running"
	d, waits := p.Waits()
	switch {
	case !waits && !p.Denied() && !h.waits.IsZero():
		h.waits, n.Event = time.Time{}, engine.EventGoesOn
	case !waits || !d.Long() || d.Since.Equal(h.waits) || !d.Until.After(time.Now()):
		return
	default:
		h.waits = d.Since
		n.Status = string(loop.Waiting)
		n.Event, n.Reason, n.Detail, n.Until = engine.EventWaits, d.For, delayReason(d), d.Until
	}
	h.tell(context.WithoutCancel(ctx), n) // a signal that ends the run keeps nobody from hearing what was before
}

// tell has the program hear of something after what it was told before. What it gives is
// closed when it has.
func (h *herald) tell(ctx context.Context, n engine.Notice) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	before, heard := h.last, make(chan struct{})
	h.last = heard
	go func() {
		defer close(heard)
		if before != nil {
			<-before
		}
		h.app.notify(ctx, h.engine, n)
	}()
	return heard
}

// end waits until what was told was heard: what the run comes to is told after that.
func (h *herald) end() { h.endUnless(func() bool { return false }) }

// endUnless does so unless something is so: that is looked for again and again.
func (h *herald) endUnless(so func() bool) {
	h.mu.Lock()
	last := h.last
	h.mu.Unlock()
	for last != nil && !so() {
		select {
		case <-last:
			return
		case <-time.After(stopPoll):
		}
	}
}
