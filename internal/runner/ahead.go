package runner

import (
	"context"
	"time"

	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/spec"
)

// early is a sandbox that is started ahead, for the next work.
type early struct {
	sandbox *spec.Sandbox
	since   time.Time
	tried   chan struct{} // closed when the start has succeeded or failed
	stopped bool          // before the start, so no old process runs in it; valid after tried
}

// serves reports whether work can begin in the sandbox without a restart. It read its credentials and
// its agent's configuration when it started: the values may expire soon, and a person may have logged in
// since.
func (e *early) serves(sb *spec.Sandbox, now time.Time) bool {
	return e.sandbox == sb && e.stopped && now.Sub(e.since) < loop.AheadFor
}

// Ahead restarts the sandbox of a seat in the background, for its next work. The restart ends processes
// that a crashed host or a person may have left there.
func (s *Loop) Ahead(ctx context.Context, seat loop.Seat) {
	at, err := s.placeOf(seat)
	if err != nil || s.ahead != nil {
		return
	}
	e := &early{sandbox: at.Sandbox, since: time.Now(), tried: make(chan struct{})}
	s.ahead = e
	s.going.Go(func() {
		defer close(e.tried)
		if err := s.engine.Stop(ctx, at.Sandbox, Grace); err != nil {
			return // the work stops it again, and reports the error
		}
		e.stopped = true
		if c, err := s.engine.Connect(ctx, at.Sandbox); err == nil {
			c.Close()
		}
	})
}

// emptySandbox makes sure that no old process runs in a sandbox. It uses the restart of [Loop.Ahead], if
// any.
func (s *Loop) emptySandbox(ctx context.Context, sb *spec.Sandbox) error {
	if was := s.ahead; was != nil { // loops with several workers start none ahead
		s.ahead = nil
		<-was.tried
		if was.serves(sb, time.Now()) {
			return nil
		}
	}
	return s.engine.Stop(ctx, sb, Grace)
}

// stopIdle stops the sandbox that was started ahead, unless a person works there.
func (s *Loop) stopIdle(ctx context.Context) {
	was := s.ahead
	if s.ahead = nil; was == nil {
		return
	}
	<-was.tried
	if in, err := s.engine.Keepers().Inside(context.WithoutCancel(ctx), was.sandbox); err == nil && was.stopped && len(in.Sessions) > 0 {
		return // a person's session
	}
	if err := s.engine.Stop(context.WithoutCancel(ctx), was.sandbox, Grace); err != nil {
		s.host.Note("%s was not stopped: %v", was.sandbox.Name, err)
	}
}
