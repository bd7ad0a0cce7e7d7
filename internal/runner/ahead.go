package runner

import (
	"context"
	"time"

	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/spec"
)

// early is a sandbox that was started for the next work.
type early struct {
	sandbox *spec.Sandbox
	since   time.Time
	tried   chan struct{} // closed when it is started, or could not be
	stopped bool          // before, so that no process was running in it; to be read after tried
}

// serves reports whether work can begin in the sandbox as it is. It has read its credentials and
// its agent's configuration when it started: the values may be valid for a short time only, and a
// person may have logged in since.
func (e *early) serves(sb *spec.Sandbox, now time.Time) bool {
	return e.sandbox == sb && e.stopped && now.Sub(e.since) < loop.AheadFor
}

// Ahead starts the sandbox of a seat anew, for its next work, while something else is done: a
// host that died, or a person, may have left something at work there.
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
			return // the work stops it again, and says so
		}
		e.stopped = true
		if c, err := s.engine.Connect(ctx, at.Sandbox); err == nil {
			c.Close()
		}
	})
}

// emptySandbox makes sure that no process runs in a sandbox, as [Loop.Ahead] does.
func (s *Loop) emptySandbox(ctx context.Context, sb *spec.Sandbox) error {
	if was := s.ahead; was != nil { // several workers have none
		s.ahead = nil
		<-was.tried
		if was.serves(sb, time.Now()) {
			return nil
		}
	}
	return s.engine.Stop(ctx, sb, Grace)
}

// stopIdle stops a sandbox that was started ahead, if no agent will work there, and no person does.
func (s *Loop) stopIdle(ctx context.Context) {
	was := s.ahead
	if s.ahead = nil; was == nil {
		return
	}
	<-was.tried
	if in, err := s.engine.Inside(context.WithoutCancel(ctx), was.sandbox); err == nil && was.stopped && len(in.Sessions) > 0 {
		return // a person's
	}
	if err := s.engine.Stop(context.WithoutCancel(ctx), was.sandbox, Grace); err != nil {
		s.host.Note("%s was not stopped: %v", was.sandbox.Name, err)
	}
}
