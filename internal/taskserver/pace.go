package taskserver

import (
	"context"
	"time"

	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/spec"
)

// During a change no other sandbox or process can change a task, of any project. A look blocks no other
// caller, but makes work for the host. Both count for as long as they take. The time that they wait for
// others, and for the tasks to be read, counts up to longest.
var (
	changing = rate{"changes", 10, time.Second}
	looking  = rate{"looks at", 4, 3 * time.Second}
)

const (
	longest  = 2 * time.Second
	maxPause = 5 * time.Second // the longest delay of a command; beyond that it is refused
)

// rate is the share of time that a sandbox may spend on tasks.
type rate struct {
	does  string
	share time.Duration // one part in this many
	burst time.Duration // at once
}

// pace is the time that a sandbox has left.
type pace struct {
	left time.Duration // available at once
	at   time.Time     // the time of that value; zero: all of burst is left
}

// pauseFor returns how long a command has to wait.
func (p *pace) pauseFor(r rate, now time.Time) time.Duration {
	p.left, p.at = min(p.left+now.Sub(p.at)/r.share, r.burst), now
	if p.left > 0 {
		return 0
	}
	return -p.left*r.share + time.Millisecond
}

// waitTurn waits until the sandbox may continue.
func (p *pace) waitTurn(ctx context.Context, r rate) error {
	pause := p.pauseFor(r, time.Now())
	switch {
	case pause == 0:
		return nil
	case pause > maxPause:
		again := (pause - maxPause).Truncate(time.Second) + time.Second
		return spec.Errorf(spec.ErrConflict, "this sandbox %s tasks faster than it may, and others wait meanwhile: again in %s", r.does, again)
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(pause):
		p.pauseFor(r, time.Now())
		return nil
	}
}

// change makes a change, if the sandbox has the right to, and changes neither too much nor too fast.
func (s *Server) change(ctx context.Context, access string, args []string, f func(*task.Graph) error) error {
	size, err := s.checkChange(access, args)
	if err == nil {
		err = s.changes.waitTurn(ctx, changing)
	}
	if err != nil {
		return err
	}
	s.written += size
	asked := time.Now()
	var began time.Time
	err = s.Store.Change(ctx, func(g *task.Graph) error {
		began = time.Now()
		return f(g)
	})
	ended := time.Now()
	if began.IsZero() {
		began = ended
	}
	s.changes.left -= min(began.Sub(asked), longest) + ended.Sub(began)
	return err
}

// readTasks reads the tasks, but not too often.
func (s *Server) readTasks(ctx context.Context, f func(*task.Graph) (string, error)) (string, error) {
	if err := s.looks.waitTurn(ctx, looking); err != nil {
		return "", err
	}
	asked := time.Now()
	g, err := s.Store.View(ctx)
	read := time.Now()
	defer func() { s.looks.left -= min(read.Sub(asked), longest) + time.Since(read) }()
	if err != nil {
		return "", err
	}
	return f(g)
}
