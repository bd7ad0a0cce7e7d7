package runner

import (
	"context"
	"time"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/spec"
)

// copies are copies of a sandbox's work, for the gates: one in which our own programs read files,
// and one for each command. A command runs code of the agent, which could change the files for the
// next command. A command's copy is started while the gates before it judge.
type copies struct {
	base     *base
	of       *spec.Sandbox
	point    checkpoint.Point
	commands int           // how many are left after the current gate
	read     *spec.Sandbox // nil: none yet
	next     *coming       // nil: none was started
}

// coming is a copy that is made and started in the background.
type coming struct {
	sandbox *spec.Sandbox
	err     error
	made    chan struct{} // closed when the copy is ready, or could not be made
}

// reading calls do, with a time limit, on the copy in which no code of the agent runs. Later reads use
// the same copy, unless do fails or reports that the read did not go well: then the copy is removed.
func (c *copies) reading(ctx context.Context, limit spec.Duration, do func(context.Context, *spec.Sandbox) (well bool, err error)) (err error) {
	if c.read == nil {
		if c.read, err = c.base.snapshots.Proof(ctx, c.of, c.point); err != nil {
			return err
		}
		c.beginNext(ctx)
	}
	limited, cancel := context.WithTimeout(ctx, time.Duration(limit))
	defer cancel()
	well, err := do(limited, c.read)
	if !well || err != nil {
		c.base.removeCopy(ctx, c.read)
		c.read = nil
	}
	return err
}

// running calls do with a fresh copy, for one command.
func (c *copies) running(ctx context.Context, do func(*spec.Sandbox) error) error {
	sb, err := c.takeCopy(ctx)
	if err != nil {
		return err
	}
	defer c.base.removeCopy(ctx, sb)
	c.beginNext(ctx)
	return do(sb)
}

// takeCopy returns the copy that was started in the background, or a new one.
func (c *copies) takeCopy(ctx context.Context) (*spec.Sandbox, error) {
	was := c.next
	if c.next = nil; was == nil {
		return c.base.snapshots.Proof(ctx, c.of, c.point)
	}
	<-was.made
	return was.sandbox, was.err
}

// beginNext starts the copy for the next command, if a command is left.
func (c *copies) beginNext(ctx context.Context) {
	if c.commands == 0 || c.next != nil {
		return
	}
	next := &coming{made: make(chan struct{})}
	c.next = next
	c.base.going.Go(func() {
		defer close(next.made)
		if next.sandbox, next.err = c.base.snapshots.Proof(ctx, c.of, c.point); next.err != nil {
			return
		}
		if conn, err := c.base.engine.Connect(ctx, next.sandbox); err == nil { // if this fails, its command reports it
			conn.Close()
		}
	})
}

// removeAll removes the remaining copies.
func (c *copies) removeAll(ctx context.Context) {
	c.commands = 0
	if c.next != nil {
		if sb, err := c.takeCopy(ctx); err == nil {
			c.base.removeCopy(ctx, sb)
		}
	}
	if c.read != nil {
		c.base.removeCopy(ctx, c.read)
	}
}
