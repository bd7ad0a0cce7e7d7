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

// Making marks a new sandbox as unfinished. To all other callers its creation, its first contents
// and its first start (if it gets one) are one step. They wait for [Engine.Made], for
// [Engine.TakeBack], or for the end of this process.
func (e *Engine) Making(sb *spec.Sandbox) func(store.Sandbox) error {
	return e.making.beginMaking(sb.ID, store.Sandbox.MakingLock)
}

// Made marks a sandbox as finished. It does nothing for a sandbox that this process does not make.
func (e *Engine) Made(sb *spec.Sandbox) error {
	if !e.making.hasLock(sb.ID) {
		return nil
	}
	defer e.making.endMaking(sb.ID)
	err := os.Remove(e.Store.Sandbox(sb.ID).MakingLock())
	if errors.Is(err, fs.ErrNotExist) { // the sandbox was removed
		err = nil
	}
	return err
}

// Unmade releases the creation lock; the next caller finishes the sandbox.
func (e *Engine) Unmade(sb *spec.Sandbox) { e.making.endMaking(sb.ID) }

// Adopt waits for the maker of a sandbox. If the maker was killed, or called Unmade, the caller
// becomes its maker. If the sandbox was taken back, the error is ErrNotFound. A caller that needs
// this very sandbox sets needed, and then it is not taken back meanwhile.
func (e *Engine) Adopt(ctx context.Context, sb *spec.Sandbox, needed bool) (adopted bool, err error) {
	if e.making.hasLock(sb.ID) {
		return true, nil
	}
	lock, wanted, err := waitForMaker(ctx, e.Keepers(), sb, needed)
	if wanted != nil {
		defer wanted.Unlock()
	}
	if lock != nil {
		e.making.keepLock(sb.ID, lock)
	}
	if err == nil && !e.Store.Has(sb.ID) {
		err = keeperclient.ErrRemoved(sb)
	}
	return lock != nil, err
}

// afterMaking waits until a sandbox may be started. The sandbox is not taken back until the caller
// calls started.
func (e *Engine) afterMaking(ctx context.Context, sb *spec.Sandbox) (started func(), err error) {
	if e.making.hasLock(sb.ID) {
		return func() {}, nil
	}
	lock, wanted, err := waitForMaker(ctx, e.Keepers(), sb, true)
	if lock != nil { // the sandbox can be used as it is
		lock.Unlock()
	}
	return func() {
		if wanted != nil {
			wanted.Unlock()
		}
	}, err
}

// waitForMaker waits until no other process makes a sandbox. It returns the creation lock if the
// sandbox is unfinished. It also returns the lock that marks the sandbox as wanted, if the caller
// needs it and had to wait.
func waitForMaker(ctx context.Context, k keeperclient.Keepers, sb *spec.Sandbox, needed bool) (lock, wanted *store.Lock, err error) {
	d := k.Store.Sandbox(sb.ID)
	defer k.Patiently("sandbox %s is being made by another bothy, which may be asking for something; waiting for it", sb.Name)()
	for {
		lock, err = store.TryLockThere(d.MakingLock())
		if errors.Is(err, fs.ErrNotExist) { // it is made, or was removed
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

// TakeBack removes a sandbox that this process makes, if it is not needed: it was never started,
// and no caller waits for it. Otherwise TakeBack leaves it as it is.
func (e *Engine) TakeBack(sb *spec.Sandbox) error {
	defer e.making.endMaking(sb.ID)
	if !e.making.hasLock(sb.ID) {
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
		e.makers.endMaking(sb.ID)
	}
	return err
}
