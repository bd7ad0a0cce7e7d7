package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/bothy-dev/bothy/internal/keeperclient"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// MarkUnfinished returns a function for [Engine.Create] that marks a new sandbox as unfinished. To all other
// callers its creation, its first contents and its first start (if it gets one) are one step. They wait for
// [Engine.MarkFinished], for [Engine.RemoveUnfinished], or for the end of this process.
func (e *Engine) MarkUnfinished(sb *spec.Sandbox) func(store.Sandbox) error {
	return e.unfinished.lockOnCreation(sb.ID, store.Sandbox.MakingLock)
}

// EndCreation ends the creation of a sandbox by this process: it is finished, or could not be finished because of
// err, and then it is removed unless it is needed.
func (e *Engine) EndCreation(sb *spec.Sandbox, err error) error {
	if err == nil {
		return e.MarkFinished(sb)
	}
	if rerr := e.RemoveUnfinished(sb); rerr != nil {
		return errors.Join(err, rerr)
	}
	return err
}

// MarkFinished marks a sandbox as finished. It does nothing for a sandbox that this process is not creating.
func (e *Engine) MarkFinished(sb *spec.Sandbox) error {
	if !e.unfinished.hasLock(sb.ID) {
		return nil
	}
	defer e.unfinished.release(sb.ID)
	err := os.Remove(e.Store.Sandbox(sb.ID).MakingLock())
	if errors.Is(err, fs.ErrNotExist) { // the sandbox was removed
		err = nil
	}
	return err
}

// LeaveUnfinished releases the creation lock; the next caller finishes the sandbox.
func (e *Engine) LeaveUnfinished(sb *spec.Sandbox) { e.unfinished.release(sb.ID) }

// Adopt waits for the creator of a sandbox. If the creator was killed, or called LeaveUnfinished, the caller
// becomes its creator. If the sandbox was removed, the error is ErrNotFound. A caller that needs this very sandbox
// sets needed, and then its creator does not remove it meanwhile.
func (e *Engine) Adopt(ctx context.Context, sb *spec.Sandbox, needed bool) (adopted bool, err error) {
	if e.unfinished.hasLock(sb.ID) {
		return true, nil
	}
	lock, wanted, err := waitUntilFinished(ctx, e.Keepers(), sb, needed)
	if wanted != nil {
		defer wanted.Unlock()
	}
	if lock != nil {
		e.unfinished.keepLock(sb.ID, lock)
	}
	if err == nil && !e.Store.Has(sb.ID) {
		err = keeperclient.ErrRemoved(sb)
	}
	return lock != nil, err
}

// waitToStart waits until a sandbox may be started. Its creator does not remove it until the caller calls
// started.
func (e *Engine) waitToStart(ctx context.Context, sb *spec.Sandbox) (started func(), err error) {
	if e.unfinished.hasLock(sb.ID) {
		return func() {}, nil
	}
	lock, wanted, err := waitUntilFinished(ctx, e.Keepers(), sb, true)
	if lock != nil { // the sandbox can be used as it is
		lock.Unlock()
	}
	return func() {
		if wanted != nil {
			wanted.Unlock()
		}
	}, err
}

// waitUntilFinished waits until no other process is creating a sandbox. It returns the creation lock if the
// sandbox is unfinished. It also returns the lock that marks the sandbox as wanted, if the caller
// needs it and had to wait.
func waitUntilFinished(ctx context.Context, k keeperclient.Keepers, sb *spec.Sandbox, needed bool) (lock, wanted *store.Lock, err error) {
	d := k.Store.Sandbox(sb.ID)
	defer k.Patiently("sandbox %s is being made by another bothy, which may be asking for something; waiting for it", sb.Name)()
	for {
		lock, err = store.TryLockThere(d.MakingLock())
		if errors.Is(err, fs.ErrNotExist) { // it is finished, or was removed
			return nil, wanted, nil
		}
		if err == nil || !errors.Is(err, store.ErrLocked) {
			return lock, wanted, err
		}
		if needed && wanted == nil {
			wanted, err = store.TryShareLock(d.WantedLock())
			if err != nil && !errors.Is(err, store.ErrLocked) && !errors.Is(err, fs.ErrNotExist) {
				return nil, nil, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, wanted, (&spec.Error{Class: spec.ErrSandbox, Op: "wait for sandbox " + sb.Name, Err: fmt.Errorf("another bothy makes it: %w", context.Cause(ctx))}).
				WithHint("see whether a bothy run or bothy create of it waits for an answer, and try again")
		case <-time.After(keeperclient.LockPoll):
		}
	}
}

// RemoveUnfinished removes a sandbox that this process is creating, if it is not needed: it was never started, and
// no caller waits for it. Otherwise RemoveUnfinished leaves it as it is.
func (e *Engine) RemoveUnfinished(sb *spec.Sandbox) error {
	defer e.unfinished.release(sb.ID)
	if !e.unfinished.hasLock(sb.ID) {
		return nil
	}
	d := e.Store.Sandbox(sb.ID)
	for _, path := range []string{d.WantedLock(), d.Lock()} {
		lock, err := store.TryLock(path)
		if errors.Is(err, store.ErrLocked) || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer lock.Unlock()
	}
	if d.MayHaveStarted() {
		return nil
	}
	if _, err := e.release(sb, d, d.ReadStatus()); err != nil {
		return err
	}
	err := e.Store.Remove(sb.ID)
	if err == nil {
		e.reserved.release(sb.ID)
	}
	return err
}
