package keeper

import (
	"context"
	"errors"
	"time"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// pauseTime bounds how long a caller can pause a sandbox, and how long the layer is kept for that
// caller.
const pauseTime = 30 * time.Second

// errLeft says that the caller that paused the sandbox has gone, or took too long.
var errLeft = errors.New("whoever had the sandbox stand still took too long")

// answerPause pauses the sandbox while the caller looks at its files.
func (k *Keeper) answerPause(ctx context.Context, c *unixconn.Conn, ask wire.Ask) error {
	if !ask.Unasked {
		if err := k.life.beginCommand(); err != nil {
			return err
		}
		defer k.life.endCommand()
	}
	err := k.pauseFor(ctx, c, ask.Memory)
	if err == nil || errors.Is(err, errLeft) {
		return err
	}
	if ctx.Err() != nil { // it ends, and the caller can look at the files then
		return k.life.tooLate()
	}
	failed := &spec.Error{Class: spec.ErrSandbox, Op: "have the sandbox stand still", Err: err}
	if store.IsFull(err) { // the sandbox is not at fault
		failed.Class = nil
		return failed.WithHint("it goes on; make room on the disk of the state directory, and try again")
	}
	return k.unlessFallen(failed)
}

// pauseFor does that. If memory names a directory, it writes an image of the memory there. It cancels
// the image when the caller is gone or the sandbox is to end.
func (k *Keeper) pauseFor(ctx context.Context, c *unixconn.Conn, memory string) error {
	who := listenTo(c)
	there, leave := who.contextWhileThere(ctx)
	defer leave()
	if err := k.wall.Settle(there); err != nil { // not during the pause
		return leftOr(there, err)
	}
	var stood wire.Stood
	var kept *Memory
	pause := k.wall.Pause
	if memory != "" {
		if err := k.wall.PrepareMemory(there, memory); err != nil {
			return leftOr(there, err)
		}
		// The sentry does not stop writing a layer when its caller is gone. A shutdown would then find
		// it busy, and lose unsaved changes.
		ctx = context.WithoutCancel(ctx)
		pause = func(context.Context) (resume func(), err error) {
			resume, kept, err = k.freeze(there, memory)
			return resume, leftOr(there, err)
		}
	}
	timed := func(ctx context.Context) (func(), error) {
		began := time.Now()
		resume, err := pause(ctx)
		return func() { resume(); stood.Pause = spec.Duration(time.Since(began)) }, err
	}
	return k.saver.savePaused(ctx, timed, func() error {
		if err := c.SendJSON(wire.Reply, struct{}{}); err != nil {
			return errLeft
		}
		return k.awaitWord(who)
	}, func() error {
		if kept != nil {
			if err := errors.Join(driver.SumMemory(memory, k.launch.Build), kept.writeFile(memory)); err != nil {
				return err
			}
			authority := k.gateway.Identity().Authority
			stood.Authority = &authority
		}
		stood.SavedAt = k.saver.savedLayer().SavedAt
		if err := c.SendJSON(wire.Reply, stood); err == nil {
			_ = k.awaitWord(who) // until the caller goes
		}
		return nil
	})
}

// leftOr returns errLeft for a failure that is due to the caller's departure.
func leftOr(there context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(there), errLeft) {
		return errLeft
	}
	return err
}

// freeze pauses the sandbox in a state that another can continue from: no message between init and
// the keeper is incomplete, and no program is half started.
func (k *Keeper) freeze(ctx context.Context, dir string) (resume func(), kept *Memory, err error) {
	k.spawning.Lock()
	speak, err := k.link.Quiesce(ctx)
	if err != nil {
		k.spawning.Unlock()
		return nil, nil, err
	}
	talk := func() { speak(); k.spawning.Unlock() }
	move, err := k.wall.Pause(ctx)
	if err != nil {
		talk()
		return nil, nil, err
	}
	err = k.wall.SaveMemory(ctx, dir)
	if err == nil {
		err = context.Cause(ctx) // the image is complete, but its caller is gone
	}
	if err != nil {
		move()
		talk()
		return nil, nil, err
	}
	return func() { move(); talk() }, k.remember(), nil
}
