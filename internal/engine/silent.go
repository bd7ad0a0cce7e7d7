package engine

import (
	"context"
	"errors"
	"time"

	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// The bounds of what a command waits for a keeper.
const (
	helloTimeout = 2 * time.Second  // a keeper greets whoever connects within this time
	tellTime     = 2 * time.Second  // to take a change that it also finds by itself
	answerTime   = 10 * time.Second // to take a change that nobody repeats
	silentTime   = 6 * time.Second  // without a greeting: whoever waits for it gives up
)

// errSilent says that a keeper takes connections, and does not greet: it hangs, or was stopped.
var errSilent = errors.New("it does not answer")

// silent is errSilent for a person.
func silent(sb *spec.Sandbox) error {
	return spec.Errorf(spec.ErrSandbox, "sandbox %s does not answer", sb.Name).
		WithHint("its process may be stopped, or the machine busy: try again, or end it: bothy stop %s", sb.Name)
}

// patience is how long a keeper that does not greet is tried again.
type patience struct {
	limit time.Duration
	since time.Time
}

// over notes how an attempt to reach the keeper ended, and tells whether it was the last.
func (p *patience) over(err error) bool {
	if !errors.Is(err, errSilent) {
		p.since = time.Time{}
		return false
	}
	if p.since.IsZero() {
		p.since = time.Now().Add(-helloTimeout)
	}
	return time.Since(p.since) >= p.limit
}

// WhileAnswering closes a conversation with a sandbox's keeper when ctx ends, or when the keeper
// greets nobody for silentTime: however long an answer takes, a keeper that works greets. The
// returned function ends that, and gives why the conversation was closed.
func (e *Engine) WhileAnswering(ctx context.Context, sb *spec.Sandbox, c *unixconn.Conn) (done func() error) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(ctx, func() { c.Close() })
	go func() {
		if e.fallsSilent(ctx, sb) {
			cancel(silent(sb))
		}
	}()
	return func() error {
		stop()
		why := context.Cause(ctx)
		cancel(nil)
		return why
	}
}

// fallsSilent returns true when the keeper of a sandbox greets nobody any more, and false when
// ctx ends. A sandbox without a control socket is not asked: it starts, or ends.
func (e *Engine) fallsSilent(ctx context.Context, sb *spec.Sandbox) bool {
	p := patience{limit: silentTime}
	for {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(helloTimeout):
		}
		c, err := dial(e.Store.Sandbox(sb.ID))
		if err == nil {
			c.Close()
		}
		if p.over(err) {
			return true
		}
	}
}
