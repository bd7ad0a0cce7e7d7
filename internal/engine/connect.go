package engine

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/keeperclient"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// Connect returns a conversation with the sandbox's keeper. It starts the sandbox if it does not
// run. Of several concurrent callers one starts it, and the others wait.
func (e *Engine) Connect(ctx context.Context, sb *spec.Sandbox) (*unixconn.Conn, error) {
	if sb.Broken != "" {
		return nil, spec.Errorf(spec.ErrSandbox, "sandbox %s cannot be used: %s", sb.Name, sb.Broken).
			WithHint("%s", cmp.Or(sb.Mend, "remove it with all that is in it: bothy rm -f "+sb.Name))
	}
	if err := checkForked(e.Store.Sandbox(sb.ID), sb); err != nil {
		return nil, err
	}
	if err := hostpath.CheckShared(sb); err != nil {
		return nil, err
	}
	waits, done := context.WithTimeout(ctx, keeperclient.StartTimeout)
	started, err := e.waitToStart(waits, sb)
	done()
	defer started()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, keeperclient.StartTimeout) // a full timeout, however long that took
	defer cancel()
	d := e.Store.Sandbox(sb.ID)
	defer e.Keepers().Patiently("sandbox %s does not answer yet; bothy stop %s ends it", sb.Name, sb.Name)()
	waiting := keeperclient.Patience{Limit: keeperclient.SilentTime}
	for {
		c, err := e.Keepers().Dial(sb.ID)
		if err == nil {
			if err := e.Directories().CheckMounted(sb); err != nil {
				c.Close()
				return nil, err
			}
			e.TellRunning(sb)
			return c, nil
		}
		if waiting.Over(err) {
			return nil, keeperclient.Silent(sb)
		}
		if errors.Is(err, spec.ErrConflict) || errors.Is(err, spec.ErrDenied) {
			return nil, err
		}
		if !e.Store.Has(sb.ID) {
			return nil, keeperclient.ErrRemoved(sb)
		}
		lock, err := store.TryLock(d.Lock())
		switch {
		case err == nil:
			c, err := e.startKeeper(ctx, sb, lock, nil)
			lock.Unlock()
			if err == nil {
				e.TellRunning(sb)
			}
			return c, err
		case errors.Is(err, store.ErrLocked):
			// Another process starts or stops it just now.
		case errors.Is(err, fs.ErrNotExist):
			return nil, keeperclient.ErrRemoved(sb)
		default:
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, (&spec.Error{Class: spec.ErrSandbox, Op: "start sandbox " + sb.Name, Err: context.Cause(ctx)}).
				WithHint("see what its keeper says: bothy logs --source keeper %s", sb.Name)
		case <-time.After(keeperclient.LockPoll):
		}
	}
}

// TellRunning tells the owner of [Engine.Running] that a sandbox runs.
func (e *Engine) TellRunning(sb *spec.Sandbox) {
	if e.Running != nil {
		e.Running(sb)
	}
}
