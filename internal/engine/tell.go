package engine

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// tell has a change reach a sandbox, whatever it does just now. If it runs, its
// keeper is asked. If it does not, idle is called while nobody can start it: it
// reads what is on the disk when it starts. One that starts or stops may have
// read that before the change: it is waited for.
//
// The error is that of ask or idle, or why neither could be. Nothing is asked of
// a keeper of another version.
func (e *Engine) tell(ctx context.Context, sb *spec.Sandbox, ask func(context.Context, *unixconn.Conn) error, idle func() error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return e.tellWithin(ctx, sb, ask, idle)
}

// tellWithin is tell for what may take as long as the context allows.
func (e *Engine) tellWithin(ctx context.Context, sb *spec.Sandbox, ask func(context.Context, *unixconn.Conn) error, idle func() error) error {
	d := e.Store.Sandbox(sb.ID)
	for {
		c, err := dial(d)
		switch {
		case err == nil:
			if err := ask(ctx, c); !errors.Is(err, spec.ErrStopping) {
				return err
			}
		case errors.Is(err, spec.ErrConflict), errors.Is(err, spec.ErrDenied):
			return err
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
