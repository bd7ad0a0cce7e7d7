package keeperclient

import (
	"context"
	"errors"
	"time"

	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// Limits of a command's wait for a keeper.
const (
	HelloTimeout = 2 * time.Second  // a keeper greets each caller within this time
	TellTime     = 2 * time.Second  // to apply a change that the keeper also finds by itself
	AnswerTime   = 10 * time.Second // to apply a change that is not repeated
	SilentTime   = 6 * time.Second  // without a greeting: then the caller gives up
)

// errSilent means that a keeper accepts connections but does not greet: it hangs, or was stopped.
var errSilent = errors.New("it does not answer")

// Silent is errSilent for the user.
func Silent(sb *spec.Sandbox) error {
	return spec.Errorf(spec.ErrSandbox, "sandbox %s does not answer", sb.Name).
		WithHint("its process may be stopped, or the machine busy: try again, or end it: bothy stop %s", sb.Name)
}

// Patience is how long a keeper that does not greet is retried.
type Patience struct {
	Limit time.Duration
	since time.Time // when it began not to greet
}

// Over records the result of an attempt to reach the keeper, and reports whether it was the last.
func (p *Patience) Over(err error) bool {
	if !errors.Is(err, errSilent) {
		p.since = time.Time{}
		return false
	}
	if p.since.IsZero() {
		p.since = time.Now().Add(-HelloTimeout)
	}
	return time.Since(p.since) >= p.Limit
}

// WhileAnswering closes a conversation with a sandbox's keeper when ctx ends, or when the keeper
// greets no caller for SilentTime: a working keeper greets, however long an answer takes. The
// returned function stops the watch, and returns why the conversation was closed.
func (k Keepers) WhileAnswering(ctx context.Context, sb *spec.Sandbox, c *unixconn.Conn) (done func() error) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(ctx, func() { c.Close() })
	go func() {
		if k.fallsSilent(ctx, sb) {
			cancel(Silent(sb))
		}
	}()
	return func() error {
		stop()
		why := context.Cause(ctx)
		cancel(nil)
		return why
	}
}

// fallsSilent returns true when the keeper of a sandbox greets no caller any more, and false when
// ctx ends. It does not ask a sandbox without a control socket: that one starts, or ends.
func (k Keepers) fallsSilent(ctx context.Context, sb *spec.Sandbox) bool {
	p := Patience{Limit: SilentTime}
	for {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(HelloTimeout):
		}
		c, err := dialControl(k.Store.Sandbox(sb.ID))
		if err == nil {
			c.Close()
		}
		if p.Over(err) {
			return true
		}
	}
}
