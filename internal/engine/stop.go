package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/cgroup"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/keeperclient"
	"github.com/bothy-dev/bothy/internal/layer"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// endTimeout bounds a stop: a large save may take that long.
const endTimeout = 15 * time.Minute

// askAgain is the time after which a keeper that agreed to end, but still holds the lock, is taken for a
// new keeper of the same sandbox.
const askAgain = 50 * time.Millisecond

// Stop ends a sandbox and keeps its state. It kills processes that do not end within grace; without
// grace it kills them at once. A sandbox that does not run is not an error.
func (e *Engine) Stop(ctx context.Context, sb *spec.Sandbox, grace time.Duration) error {
	lock, lost, err := e.haltSandbox(ctx, sb, max(grace, time.Millisecond))
	if lock != nil {
		lock.Unlock()
	}
	return errors.Join(lost, err)
}

// haltSandbox is endSandbox for a stop, with the usual grace if none is given. lost is the error of state that could
// not be saved; the stop itself did not fail then.
func (e *Engine) haltSandbox(ctx context.Context, sb *spec.Sandbox, grace time.Duration) (lock *store.Lock, lost, err error) {
	lock, err = e.endSandbox(ctx, sb, stopping(grace), func(said error) {
		if !errors.Is(said, spec.ErrStopping) {
			lost = said
		}
	})
	return lock, lost, err
}

// Halt stops a sandbox with the usual grace, and returns its lock: no other command starts it before
// the caller releases the lock. lost is the error of a sandbox that has stopped without saving all
// of its state. If the sandbox was removed meanwhile, the error is ErrNotFound.
func (e *Engine) Halt(ctx context.Context, sb *spec.Sandbox) (lock *store.Lock, lost, err error) {
	lock, lost, err = e.haltSandbox(ctx, sb, 0)
	if err == nil && lock == nil {
		err = keeperclient.ErrRemoved(sb)
	}
	if err != nil && lock != nil {
		lock.Unlock()
		lock = nil
	}
	return lock, lost, err
}

// endSandbox asks the keeper to end the sandbox and waits until it is gone. It returns the sandbox's lock, so
// that no other process starts it before the caller is done. The lock is nil if the sandbox was removed
// meanwhile. endSandbox calls failed, which may be nil, with an error that the keeper answers.
func (e *Engine) endSandbox(ctx context.Context, sb *spec.Sandbox, ask wire.Ask, failed func(error)) (*store.Lock, error) {
	d := e.Store.Sandbox(sb.ID)
	ctx, done := context.WithTimeout(ctx, endTimeout)
	defer done()
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	go func() {
		if err := e.Keepers().Watch(ctx, sb); err != nil {
			giveUp(err)
		}
	}()
	var asked time.Time
	for {
		lock, err := store.TryLock(d.Lock())
		if err == nil {
			if ask.Op == wire.OpDestroy {
				_, err := e.release(sb, d, d.ReadStatus())
				return lock, err
			}
			return lock, e.cleanCrash(sb, d)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil // another process removed it
		}
		if !errors.Is(err, store.ErrLocked) {
			return nil, err
		}
		if time.Since(asked) > askAgain {
			if c, err := e.Keepers().Dial(sb.ID); err == nil {
				if err := keeperclient.Request(ctx, c, ask); err == nil {
					asked = time.Now()
				} else if said, ok := errors.AsType[*spec.Error](err); ok && failed != nil {
					failed(said)
				}
			}
		}
		select {
		case <-ctx.Done():
			err := context.Cause(ctx)
			return nil, &spec.Error{Op: "stop sandbox " + sb.Name, Err: err, Hint: spec.Hint(err)}
		case <-time.After(time.Millisecond):
		}
	}
}

func stopping(grace time.Duration) wire.Ask {
	return wire.Ask{Op: wire.OpStop, Grace: spec.Duration(grace), Timeout: int((grace + time.Second - 1) / time.Second)}
}

// cleanCrash removes the remains of a crash from a sandbox without a keeper, and records the crash. The
// caller holds the lock.
func (e *Engine) cleanCrash(sb *spec.Sandbox, d store.Sandbox) error {
	if err := d.CheckStatus(); err != nil {
		return err
	}
	st := d.ReadStatus()
	left, err := e.release(sb, d, st)
	if err != nil {
		return err
	}
	d.SweepTemp()
	if st.State == spec.Stopped && st.Cgroup == "" {
		if !st.Crashed {
			_ = os.Remove(d.Log(oldKeeperLog))
		}
		return nil
	}
	if st.State != spec.Stopped && st.State != spec.Stopping {
		now := time.Now().UTC()
		st.Crashed, st.CrashTold, st.StoppedAt = true, true, &now
		if st.Reason == "" {
			st.Reason = keeperclient.WhyDied(d)
		}
		lost := ""
		if st.State == spec.Running {
			lost = "; " + lostSince(st)
		}
		e.Say("sandbox %s had not been stopped properly; cleaned up: %s%s", sb.Name, st.Reason, lost)
		keepLastWords(d, st.Reason)
	}
	st.State, st.KeeperPID, st.Cgroup = spec.Stopped, 0, left
	_ = (layer.Store{Dir: d.Layers()}).Sweep()
	return store.WriteJSON(d.Status(), st)
}

// sayCrash tells the user at the start of a sandbox that the sandbox ended by itself the last time, as
// its keeper recorded. It does so once.
func sayCrash(k keeperclient.Keepers, sb *spec.Sandbox, d store.Sandbox) {
	st, known := d.LastStatus()
	if !known || st.State != spec.Stopped || !st.Crashed || st.CrashTold {
		return
	}
	k.Say("sandbox %s ended by itself: %s; %s", sb.Name, st.Reason, lostSince(st))
	st.CrashTold = true
	_ = store.WriteJSON(d.Status(), st) // on a full disk the user is told again
}

// lostSince describes what a sandbox loses that was not stopped properly.
func lostSince(st spec.Status) string {
	since := "since it was created"
	if at := st.Root.SavedAt; at != nil {
		since = "since " + at.Local().Format(time.DateTime)
	}
	return "every change outside the home and the shared directories " + since + " is lost"
}

// release frees the host's resources that a sandbox without a keeper may still hold. It leaves a control
// group in which a process hangs in a file system: the next command for the sandbox tries again.
func (e *Engine) release(sb *spec.Sandbox, d store.Sandbox, st spec.Status) (left string, err error) {
	noted, _ := os.ReadFile(d.Cgroup())
	for _, path := range []string{st.Cgroup, string(noted)} {
		if path == "" {
			continue
		}
		if st.State != spec.Stopped {
			_ = cgroup.Kill(path)
		}
		err := cgroup.Remove(path)
		if errors.Is(err, unix.EBUSY) {
			if hung := hostpath.CheckShared(sb); hung != nil {
				e.Say("processes of sandbox %s cannot be killed while they wait for a file system, and end when it answers: %v; until then the control group %s stays", sb.Name, hung, path)
				left, err = path, nil
			}
		}
		if err != nil {
			return "", fmt.Errorf("remove the cgroup of %s: %w", sb.Name, err)
		}
		if left != "" {
			break // both are the same
		}
	}
	if left == "" {
		_ = os.Remove(d.Cgroup())
	}
	_ = os.Remove(d.Control())
	return left, nil
}

// Remove removes a sandbox and everything that Bothy made for it. Without force it refuses a sandbox in
// which a session runs.
func (e *Engine) Remove(ctx context.Context, sb *spec.Sandbox, force bool) error {
	if !force {
		if err := checkUnused(ctx, e.Keepers(), sb); err != nil {
			return err
		}
	}
	if sb.Broken != "" { // maybe because the caller cannot read its directory, and with it the lock
		if err := e.Store.Sandbox(sb.ID).Reach(); err != nil {
			return err
		}
	}
	lock, err := e.endSandbox(ctx, sb, wire.Ask{Op: wire.OpDestroy}, nil)
	if lock != nil {
		defer lock.Unlock()
		if err == nil {
			err = e.eraseFiles(sb)
		}
	}
	if err == nil {
		e.reserved.release(sb.ID)
		e.unfinished.release(sb.ID)
	}
	return err
}

// checkUnused returns an error if a session runs in a sandbox, or may run: its keeper does not answer.
func checkUnused(ctx context.Context, k keeperclient.Keepers, sb *spec.Sandbox) error {
	st, err := k.Inside(ctx, sb)
	const hint = "stop it first, or use --force"
	switch {
	case errors.Is(err, spec.ErrConflict): // it does not run, or is of another version
	case errors.Is(err, spec.ErrNotFound): // another process removed it
	case err != nil:
		return spec.Errorf(spec.ErrConflict, "sandbox %s may be in use: %v", sb.Name, err).WithHint(hint)
	case len(st.Sessions) > 0:
		return spec.Errorf(spec.ErrConflict, "sandbox %s is in use (%d running)", sb.Name, len(st.Sessions)).WithHint(hint)
	}
	return nil
}

// Reset removes every sandbox and every file of Bothy's in the state directory.
func (e *Engine) Reset(ctx context.Context) ([]string, error) {
	list, err := e.Store.List()
	if err != nil {
		return nil, err
	}
	var gone []string
	var errs []error
	for _, sb := range list {
		if err := e.Remove(ctx, sb, true); err != nil {
			errs = append(errs, fmt.Errorf("remove %s: %w", sb.Name, err))
			continue
		}
		gone = append(gone, sb.Name)
	}
	if len(errs) == 0 {
		if err := e.Credentials().Values.ForgetKey(ctx); err != nil {
			e.Say("the key of the secrets stays in the keyring: %v", err)
		}
		errs = append(errs, e.Store.Erase())
	}
	return gone, errors.Join(errs...)
}
