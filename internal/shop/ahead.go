package shop

import (
	"context"

	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/spec"
)

// Ahead starts the sandbox of a seat, for its next work, while something else is done.
func (s *Loop) Ahead(ctx context.Context, seat loop.Seat) {
	at, err := s.at(seat)
	if err != nil || s.ahead != nil {
		return
	}
	s.ahead = at.Sandbox
	s.going.Go(func() {
		if c, err := s.engine.Connect(ctx, at.Sandbox); err == nil { // else the work itself says so
			c.Close()
		}
	})
}

// empty sees that nothing is at work in a sandbox: a host that died may have left an agent
// there. In one that was started ahead nobody was.
func (s *Loop) empty(ctx context.Context, sb *spec.Sandbox) error {
	if s.ahead == sb {
		s.ahead = nil
		return nil
	}
	return s.engine.Stop(ctx, sb, Grace)
}

// idle stops what was started ahead, if nobody will work there.
func (s *Loop) idle(ctx context.Context) {
	sb := s.ahead
	if s.ahead = nil; sb == nil {
		return
	}
	s.going.Wait() // or it would be started after that
	if err := s.engine.Stop(context.WithoutCancel(ctx), sb, Grace); err != nil {
		s.host.Note("%s was not stopped: %v", sb.Name, err)
	}
}
