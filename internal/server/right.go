package server

import (
	"context"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// recheck is how often the token of a stream is looked up again: it may have been removed.
const recheck = 5 * time.Second

// errExpired ends a stream whose token became invalid.
var errExpired = spec.Errorf(spec.ErrDenied, "the token has expired, or was removed").WithHint("make one: bothy token create")

// whileAllowed returns a context that ends with the request, or when its token becomes invalid. Its cause
// says why.
func (c *call) whileAllowed() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(c.r.Context())
	if c.token == nil {
		return ctx, func() { cancel(nil) }
	}
	var mu sync.Mutex
	var next *time.Timer
	var look func()
	look = func() {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case ctx.Err() != nil:
		case !c.server.tokens.Holds(c.token):
			cancel(errExpired)
		default:
			next = time.AfterFunc(c.untilLook(), look)
		}
	}
	mu.Lock()
	next = time.AfterFunc(c.untilLook(), look)
	mu.Unlock()
	return ctx, func() {
		cancel(nil)
		mu.Lock()
		defer mu.Unlock()
		next.Stop()
	}
}

// untilLook returns when the token is looked up again.
func (c *call) untilLook() time.Duration {
	if at := c.token.ExpiresAt; at != nil {
		return min(recheck, max(0, time.Until(*at)))
	}
	return recheck
}
