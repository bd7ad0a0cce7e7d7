package launch

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/notify"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runstate"
)

// notify runs the user's program with a notice about a run. A failure is noted and has no other effect.
func (l *Launcher) notify(ctx context.Context, n notify.Notice) {
	if len(l.Settings.Notify) == 0 {
		return
	}
	paths, err := l.Engine.Paths()
	if err == nil {
		err = notify.Send(ctx, paths, l.Settings.Notify, n)
	}
	if err != nil && ctx.Err() == nil {
		l.Note("%v", err)
	}
}

// herald runs the user's program while a run is active: at its start, and for each long wait. The
// run does not wait for the program, and notices keep their order.
type herald struct {
	launcher *Launcher
	notice   notify.Notice // of the run
	before   []run.Event   // up to now
	waits    time.Time     // start of the wait that was reported last; zero: over

	mu   sync.Mutex
	last <-chan struct{} // closed when the last notice was delivered
}

// handleEvent sends the notices that the next event of the run and the state after it call for.
func (h *herald) handleEvent(ctx context.Context, ev run.Event, s runstate.Patient) {
	if ev.Type == run.Began {
		h.noteBegin(ctx)
		h.before = append(h.before, ev)
	}
	h.noteState(ctx, s)
}

// noteBegin sends the notice that this process now runs the run.
func (h *herald) noteBegin(ctx context.Context) {
	n := h.notice
	n.Event, n.Status = notify.Began, string(run.Running)
	if slices.ContainsFunc(h.before, func(ev run.Event) bool { return ev.Type == run.Began }) {
		n.Event = notify.Resumed
	}
	h.Tell(context.WithoutCancel(ctx), n)
}

// noteState sends a notice if the state calls for one: once for each wait, and once for its end. Only one
// goroutine calls it.
func (h *herald) noteState(ctx context.Context, p runstate.Patient) {
	n := h.notice
	n.Status = "running"
	d, waits := p.Waits()
	switch {
	case !waits && !p.Denied() && !h.waits.IsZero():
		h.waits, n.Event = time.Time{}, notify.GoesOn
	case !waits || !d.Long() || d.Since.Equal(h.waits) || !d.Until.After(time.Now()):
		return
	default:
		h.waits = d.Since
		n.Status = string(run.Waiting)
		n.Event, n.Reason, n.Detail, n.Until = notify.Waits, d.For, runstate.DelayReason(d), d.Until
	}
	h.Tell(context.WithoutCancel(ctx), n) // the user still hears of this if a signal ends the run
}

// Tell delivers a notice after the previous one. The returned channel is closed after that.
func (h *herald) Tell(ctx context.Context, n notify.Notice) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	before, heard := h.last, make(chan struct{})
	h.last = heard
	go func() {
		defer close(heard)
		if before != nil {
			<-before
		}
		h.launcher.notify(ctx, n)
	}()
	return heard
}

// waitForNotices waits until all notices were delivered, because the notice of the run's result comes after
// them.
func (h *herald) waitForNotices() { h.endUnless(func() bool { return false }) }

// endUnless is end, but returns early once so is true; it polls.
func (h *herald) endUnless(so func() bool) {
	h.mu.Lock()
	last := h.last
	h.mu.Unlock()
	for last != nil && !so() {
		select {
		case <-last:
			return
		case <-time.After(runstate.PollEvery):
		}
	}
}
