package engine

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// tell brings a change to a sandbox, whatever its state. If the sandbox runs, tell calls ask with
// its keeper. If it does not, tell calls idle while it cannot start: it reads the disk when it
// starts. tell waits for a sandbox that is starting or stopping, because it may have read the disk
// before the change.
//
// The error is that of ask or idle, or says why neither could be called. tell asks nothing of a
// keeper of another version.
func (e *Engine) tell(ctx context.Context, sb *spec.Sandbox, ask func(context.Context, *unixconn.Conn) error, idle func() error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return e.TellWithin(ctx, sb, ask, idle)
}

// TellWithin is tell for a change that may take as long as the context allows.
func (e *Engine) TellWithin(ctx context.Context, sb *spec.Sandbox, ask func(context.Context, *unixconn.Conn) error, idle func() error) error {
	return e.tellPatiently(ctx, sb, silentTime, ask, idle)
}

// tellSoon is tell for a change that a keeper that does not answer misses for now. It waits limit
// for the answer, and does not try a silent keeper twice.
func (e *Engine) tellSoon(ctx context.Context, sb *spec.Sandbox, limit time.Duration, ask wire.Ask) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return e.tellPatiently(ctx, sb, helloTimeout, func(ctx context.Context, c *unixconn.Conn) error {
		return orderSoon(ctx, sb, c, limit, ask)
	}, func() error { return nil })
}

// orderSoon is orderKept with its own limit.
func orderSoon(ctx context.Context, sb *spec.Sandbox, c *unixconn.Conn, limit time.Duration, ask wire.Ask) error {
	soon, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := orderKept(soon, sb, c, ask)
	if err != nil && soon.Err() != nil && ctx.Err() == nil {
		return silent(sb)
	}
	return err
}

// maxSevered is how often a request is repeated if its conversation ended without an answer while
// the keeper lives on.
const maxSevered = 3

// tellPatiently is TellWithin that retries a silent keeper for limit. ask must be safe to repeat.
func (e *Engine) tellPatiently(ctx context.Context, sb *spec.Sandbox, limit time.Duration, ask func(context.Context, *unixconn.Conn) error, idle func() error) error {
	d := e.Store.Sandbox(sb.ID)
	waiting, ends := patience{limit: limit}, 0
	defer e.Patiently("sandbox %s does not answer yet; waiting for it", sb.Name)()
	for {
		c, err := dial(d)
		switch {
		case err == nil:
			done := e.WhileAnswering(ctx, sb, c)
			err := ask(ctx, c)
			why := done()
			_, said := errors.AsType[*spec.Error](err)
			switch {
			case err == nil:
				return nil
			case !said && why != nil:
				return why
			case !said && severed(err) && ends < maxSevered:
				ends++
			case !errors.Is(err, spec.ErrStopping):
				return err
			}
		case errors.Is(err, spec.ErrConflict), errors.Is(err, spec.ErrDenied):
			return err
		case waiting.over(err):
			return silent(sb)
		}
		lock, err := store.TryLock(d.Lock())
		if err == nil {
			defer lock.Unlock()
			return idle()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return errRemoved(sb)
		}
		if !errors.Is(err, store.ErrLocked) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(lockPoll):
		}
	}
}
