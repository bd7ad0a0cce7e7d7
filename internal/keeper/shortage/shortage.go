// Package shortage ends the largest program when the memory of a sandbox runs short.
package shortage

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/cgroup"
	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/keeper/initlink"
	"github.com/bothy-dev/bothy/internal/wire"
)

// The keeper checks memory often enough to see use pass half of the limit, and very often from
// there on. It acts from memoryDanger on, a share of the limit: at the limit itself the host's
// kernel would kill the whole sandbox.
const (
	memoryIdle   = time.Second // the longest time between two checks: each wakes a processor
	memoryPoll   = 100 * time.Millisecond
	memoryHurry  = 10 * time.Millisecond
	memoryRate   = 8 << 30 // fastest growth to expect, in bytes a second; faster growth meets the cgroup's limit
	memoryDanger = 0.90
	headroom     = 40 << 20
	memoryTold   = time.Minute // how often to report that no program could be ended
)

// Guard ends the largest program inside when the sandbox comes near its memory limit, so that
// the others go on. It also enforces the limit, less strictly, if the host gives us no cgroup.
type Guard struct {
	Options
}

// Options describe the sandbox.
type Options struct {
	Limit  int64  // in bytes; 0: none
	Cgroup string // that enforces the limit; empty: none does
	Wall   Wall
	Init   asker
	Log    *slog.Logger
	// Event writes an event of the sandbox. Tell adds a note to the end of every running program.
	Event func(kind string, fields map[string]any)
	Tell  func(text string)
}

// Wall is the part of the wall that knows of memory.
type Wall interface {
	CPU() time.Duration
	Memory(context.Context) (int64, error)
	Signal(ctx context.Context, pid, signal int) error
}

// asker asks init.
type asker interface {
	Ask(context.Context, wire.InitAsk) (wire.InitReply, error)
}

// New makes a guard of one sandbox.
func New(o Options) *Guard { return &Guard{o} }

// Follow guards until the context ends.
func (g *Guard) Follow(ctx context.Context) {
	if g.Limit > 0 {
		g.watchUse(ctx, g.openGauge(ctx))
	}
}

func (g *Guard) watchUse(ctx context.Context, current func() (used int64, worked bool)) {
	pause := untilHalf(0, g.Limit)
	var told time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		used, worked := current()
		if pause = untilHalf(used, g.Limit); !worked {
			pause = max(pause, memoryPoll)
			continue
		}
		if isNear(used, g.Limit) {
			// The shortage may last, with a hundred checks in a second.
			if err := g.killLargest(ctx, used); err != nil && time.Since(told) > memoryTold {
				told = time.Now()
				g.Log.Warn("memory is short, and no program was ended", "err", err)
			}
		}
	}
}

// untilHalf returns the time until the next check.
func untilHalf(used, limit int64) time.Duration {
	left := limit/2 - used
	if left < 0 {
		return memoryHurry
	}
	soonest := time.Duration(float64(left) / memoryRate * float64(time.Second))
	return min(max(soonest, memoryPoll), memoryIdle)
}

// openGauge reads the sandbox's memory use: from its cgroup, otherwise by asking the wall. That
// costs the wall a little work, so it happens only if the wall has worked meanwhile. Otherwise
// the last value still holds.
func (g *Guard) openGauge(ctx context.Context) func() (used int64, worked bool) {
	if g.Cgroup != "" {
		group := cgroup.Open(g.Cgroup)
		if _, held, err := group.Memory(); err == nil && held > 0 {
			return func() (int64, bool) {
				used, _ := group.Taken(g.Limit / 2)
				return used, true
			}
		}
	}
	last, at := int64(0), time.Duration(0)
	return func() (int64, bool) {
		if g.Wall.CPU()-at < driver.IdleCPU {
			return last, false
		}
		used, err := g.Wall.Memory(ctx)
		at = g.Wall.CPU()
		if err == nil {
			last = used
		}
		return last, err == nil
	}
}

func isNear(current, limit int64) bool {
	if limit <= 0 {
		return false
	}
	return float64(current) > float64(limit)*memoryDanger || limit-current < headroom && limit > 4*headroom
}

// killLargest ends the program with the most memory, as init sees it.
func (g *Guard) killLargest(ctx context.Context, current int64) error {
	victim, err := g.Init.Ask(ctx, wire.InitAsk{Ask: wire.AskLargest})
	if err != nil || victim.PID <= 1 {
		return err
	}
	if err := g.Wall.Signal(ctx, victim.PID, int(unix.SIGKILL)); err != nil {
		return fmt.Errorf("end process %d: %w", victim.PID, err)
	}
	name := initlink.Clip(victim.Command)
	g.Event("memory.killed", map[string]any{
		"pid": victim.PID, "command": name, "used": current, "limit": g.Limit,
	})
	g.Tell(fmt.Sprintf("%s (process %d) was ended: the sandbox neared its memory limit of %d MiB; a new sandbox may have more, for instance --memory %dm",
		name, victim.PID, g.Limit>>20, 2*g.Limit>>20))
	time.Sleep(memoryPoll)
	return nil
}
