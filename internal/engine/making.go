package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Making has a sandbox that is created be one that is still made: what it begins with, and
// its first start if there is to be one, are one step with its creation to everybody else.
// They wait for [Engine.Made], for [Engine.TakeBack], or for the end of this process.
func (e *Engine) Making(sb *spec.Sandbox) func(store.Sandbox) error {
	return e.making.begin(sb.ID, store.Sandbox.MakingLock)
}

// Made says that a sandbox has what it is to begin with. One that is not made here is left
// alone.
func (e *Engine) Made(sb *spec.Sandbox) error {
	if !e.making.has(sb.ID) {
		return nil
	}
	defer e.making.end(sb.ID)
	err := os.Remove(e.Store.Sandbox(sb.ID).MakingLock())
	if errors.Is(err, fs.ErrNotExist) { // it was removed
		err = nil
	}
	return err
}

// Unmade leaves a sandbox that is made here to who comes next, who goes on with it.
func (e *Engine) Unmade(sb *spec.Sandbox) { e.making.end(sb.ID) }

// Adopt waits for who makes a sandbox. If they were killed, or left it, it is the caller's to
// make from then on. If it was taken back the error is ErrNotFound; who needs this very one
// says so, and nobody takes it back meanwhile.
func (e *Engine) Adopt(ctx context.Context, sb *spec.Sandbox, needed bool) (adopted bool, err error) {
	if e.making.has(sb.ID) {
		return true, nil
	}
	lock, wanted, err := e.waitForMaker(ctx, sb, needed)
	if wanted != nil {
		defer wanted.Unlock()
	}
	if lock != nil {
		e.making.keep(sb.ID, lock)
	}
	if err == nil && !e.exists(sb) {
		err = errRemoved(sb)
	}
	return lock != nil, err
}

// beingMade tells whether somebody is at work on a sandbox that lacks something yet.
func (e *Engine) beingMade(sb *spec.Sandbox) bool {
	return store.IsLocked(e.Store.Sandbox(sb.ID).MakingLock())
}

// afterMaking waits until a sandbox may be started. Nobody takes it back before the caller
// says that it has been.
func (e *Engine) afterMaking(ctx context.Context, sb *spec.Sandbox) (started func(), err error) {
	if e.making.has(sb.ID) {
		return func() {}, nil
	}
	lock, wanted, err := e.waitForMaker(ctx, sb, true)
	if lock != nil { // it can be used as it is
		lock.Unlock()
	}
	return func() {
		if wanted != nil {
			wanted.Unlock()
		}
	}, err
}

// waitForMaker waits until nobody makes a sandbox. It gives the lock of that if it is not made
// yet, and that by which it is wanted, if that was asked for and had to be taken.
func (e *Engine) waitForMaker(ctx context.Context, sb *spec.Sandbox, needed bool) (lock, wanted *store.Lock, err error) {
	d := e.Store.Sandbox(sb.ID)
	defer e.patiently("sandbox %s is being made by another bothy, which may be asking for something; waiting for it", sb.Name)()
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
		case <-time.After(lockPoll):
		}
	}
}

// TakeBack removes a sandbox that is made here, and that nobody has use for: it was never
// started, and nobody waits for it. Otherwise it is left as it is.
func (e *Engine) TakeBack(sb *spec.Sandbox) error {
	defer e.making.end(sb.ID)
	if !e.making.has(sb.ID) {
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
		e.makers.end(sb.ID)
	}
	return err
}
