package keeper

import (
	"context"
	"errors"
	"time"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
	"github.com/bothy-dev/bothy/spec"
)

// stillTime bounds how long a sandbox stands still for somebody, and how long the
// layer stays for him.
const stillTime = 30 * time.Second

// errLeft says that whoever had the sandbox stand still has gone, or took too long.
var errLeft = errors.New("whoever had the sandbox stand still took too long")

// answerStill has the sandbox stand still while somebody looks at its files.
func (k *Keeper) answerStill(ctx context.Context, c *unixconn.Conn) error {
	if err := k.begin(); err != nil {
		return err
	}
	defer k.end()
	err := k.stand(ctx, c)
	if err == nil || errors.Is(err, errLeft) {
		return err
	}
	return k.unlessFallen(&spec.Error{Class: spec.ErrSandbox, Op: "have the sandbox stand still", Err: err})
}

func (k *Keeper) stand(ctx context.Context, c *unixconn.Conn) error {
	return k.saver.saveStill(ctx, func() error {
		if err := c.SendJSON(wire.Reply, struct{}{}); err != nil {
			return errLeft
		}
		return k.hear(c)
	}, func() error {
		if err := c.SendJSON(wire.Reply, k.saver.layer()); err == nil {
			_ = k.hear(c) // until it goes
		}
		return nil
	})
}

// hear waits for a word: for some time, and not if the sandbox shall end.
func (k *Keeper) hear(c *unixconn.Conn) error {
	defer time.AfterFunc(stillTime, func() { c.Close() }).Stop()
	heard := make(chan struct{})
	defer close(heard)
	go func() {
		select {
		case <-k.asked:
			_ = c.SendError(k.tooLate())
			c.Close()
		case <-heard:
		}
	}()
	if err := c.Expect(wire.Request, &struct{}{}); err != nil {
		return errLeft
	}
	return nil
}
