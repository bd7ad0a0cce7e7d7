package keeperclient

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

// Tell brings a change to a sandbox, whatever its state. If the sandbox runs, Tell calls ask with
// its keeper. If it does not, Tell calls idle while it cannot start: it reads the disk when it
// starts. Tell waits for a sandbox that is starting or stopping, because it may have read the disk
// before the change.
//
// The error is that of ask or idle, or says why neither could be called. Tell asks nothing of a
// keeper of another version.
func (k Keepers) Tell(ctx context.Context, sb *spec.Sandbox, ask func(context.Context, *unixconn.Conn) error, idle func() error) error {
	ctx, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()
	return k.TellWithin(ctx, sb, ask, idle)
}

// TellWithin is Tell for a change that may take as long as the context allows.
func (k Keepers) TellWithin(ctx context.Context, sb *spec.Sandbox, ask func(context.Context, *unixconn.Conn) error, idle func() error) error {
	return k.tellPatiently(ctx, sb, SilentTime, ask, idle)
}

// TellOnce is Tell for a change that a keeper that does not answer misses for now: it does not try a silent
// keeper twice.
func (k Keepers) TellOnce(ctx context.Context, sb *spec.Sandbox, ask func(context.Context, *unixconn.Conn) error, idle func() error) error {
	ctx, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()
	return k.tellPatiently(ctx, sb, HelloTimeout, ask, idle)
}

// OrderSoon is OrderKept with its own limit.
func OrderSoon(ctx context.Context, sb *spec.Sandbox, c *unixconn.Conn, limit time.Duration, ask wire.Ask) error {
	soon, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := OrderKept(soon, sb, c, ask)
	if err != nil && soon.Err() != nil && ctx.Err() == nil {
		return Silent(sb)
	}
	return err
}

// maxSevered is how often a request is repeated if its conversation ended without an answer while
// the keeper lives on.
const maxSevered = 3

// tellPatiently is TellWithin that retries a silent keeper for limit. ask must be safe to repeat.
func (k Keepers) tellPatiently(ctx context.Context, sb *spec.Sandbox, limit time.Duration, ask func(context.Context, *unixconn.Conn) error, idle func() error) error {
	d := k.Store.Sandbox(sb.ID)
	waiting, ends := Patience{Limit: limit}, 0
	defer k.Patiently("sandbox %s does not answer yet; waiting for it", sb.Name)()
	for {
		c, err := dialControl(d)
		switch {
		case err == nil:
			done := k.WhileAnswering(ctx, sb, c)
			err := ask(ctx, c)
			why := done()
			_, said := errors.AsType[*spec.Error](err)
			switch {
			case err == nil:
				return nil
			case !said && why != nil:
				return why
			case !said && IsSevered(err) && ends < maxSevered:
				ends++
			case !errors.Is(err, spec.ErrStopping):
				return err
			}
		case errors.Is(err, spec.ErrConflict), errors.Is(err, spec.ErrDenied):
			return err
		case waiting.Over(err):
			return Silent(sb)
		}
		lock, err := store.TryLock(d.Lock())
		if err == nil {
			defer lock.Unlock()
			return idle()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return ErrRemoved(sb)
		}
		if !errors.Is(err, store.ErrLocked) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(LockPoll):
		}
	}
}
