package taskserver

import (
	"context"
	"time"

	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/spec"
)

// While somebody changes a task nobody else can change one, of whatever project. A sandbox
// has one part in share of that time, and burst of it at once. A change counts for as long as
// it takes, what it waited for others included, up to longest.
const (
	share    = 10
	burst    = time.Second
	longest  = 2 * time.Second
	maxPause = 5 * time.Second // for which a change is delayed; beyond that it is refused
)

// pace is what a sandbox may take of that time.
type pace struct {
	left time.Duration // at once
	at   time.Time     // when that was so; zero: all of burst
}

// pause is how long a change is to wait.
func (p *pace) pause(now time.Time) time.Duration {
	p.left, p.at = min(p.left+now.Sub(p.at)/share, burst), now
	if p.left > 0 {
		return 0
	}
	return -p.left*share + time.Millisecond
}

// wait waits until the sandbox may change something.
func (s *Server) wait(ctx context.Context) error {
	pause := s.pace.pause(time.Now())
	switch {
	case pause == 0:
		return nil
	case pause > maxPause:
		again := (pause - maxPause).Truncate(time.Second) + time.Second
		return spec.Errorf(spec.ErrConflict, "this sandbox changes tasks faster than it may, and others wait meanwhile: again in %s", again)
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(pause):
		s.pace.pause(time.Now())
		return nil
	}
}

// change changes tasks as arguments say, if that is what the sandbox was given, and not too
// much, nor too fast.
func (s *Server) change(ctx context.Context, access string, args []string, f func(*task.Graph) error) error {
	size, err := s.mayChange(access, args)
	if err == nil {
		err = s.wait(ctx)
	}
	if err != nil {
		return err
	}
	s.written += size
	began := time.Now()
	err = s.Store.Change(ctx, f)
	s.pace.left -= min(time.Since(began), longest)
	return err
}
