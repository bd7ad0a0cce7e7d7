package shop

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
}

// newFor is for how long it is as good as one that is started now. What it is lent it has read
// when it started, as has its agent's configuration: the values may be good for a short time, and a
// person may have logged in since.
const newFor = time.Minute

// serves tells whether work can begin in a sandbox as it is.
func (e early) serves(sb *spec.Sandbox, now time.Time) bool {
	return e.sandbox == sb && now.Sub(e.since) < newFor
}

// Ahead starts the sandbox of a seat anew, for its next work, while something else is done: a
// host that died, or a person, may have left something at work there.
func (s *Loop) Ahead(ctx context.Context, seat loop.Seat) {
	at, err := s.at(seat)
	if err != nil || s.ahead.sandbox != nil {
		return
	}
	tried := make(chan struct{})
	s.ahead = early{at.Sandbox, time.Now(), tried}
	s.going.Go(func() {
		defer close(tried)
		if err := s.engine.Stop(ctx, at.Sandbox, Grace); err != nil {
			return // the work itself says so
		}
		if c, err := s.engine.Connect(ctx, at.Sandbox); err == nil {
			c.Close()
		}
	})
}

// empty sees that nothing is at work in a sandbox, as [Loop.Ahead] does.
func (s *Loop) empty(ctx context.Context, sb *spec.Sandbox) error {
	was := s.ahead
	s.ahead = early{}
	if was.sandbox != nil {
		<-was.tried
	}
	if was.serves(sb, time.Now()) {
		return nil
	}
	return s.engine.Stop(ctx, sb, Grace)
}

// idle stops what was started ahead, if nobody will work there.
func (s *Loop) idle(ctx context.Context) {
	was := s.ahead
	if s.ahead = (early{}); was.sandbox == nil {
		return
	}
	<-was.tried
	if err := s.engine.Stop(context.WithoutCancel(ctx), was.sandbox, Grace); err != nil {
		s.host.Note("%s was not stopped: %v", was.sandbox.Name, err)
	}
}
