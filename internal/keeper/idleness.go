package keeper

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/driver/usage"
	"github.com/bothy-dev/bothy/internal/keeper/session"
	"github.com/bothy-dev/bothy/spec"
)

// idlePoll is the longest time between two checks for idleness.
const idlePoll = 10 * time.Second

// idleShare is the part of one processor below which the programs inside count as idle.
const idleShare = 0.01

// idleness notices when a sandbox is unused.
type idleness struct {
	limit    time.Duration // after which it stops; 0: never
	life     *life
	wall     driver.Wall
	sessions *session.Table
	gateway  Gateway
	served   *atomic.Int64 // connections to published ports that have ended
}

// stopWhenIdle stops a sandbox that is unused and has no working program.
func (i *idleness) stopWhenIdle(ctx context.Context) {
	limit := i.limit
	if limit <= 0 {
		return
	}
	tick := time.NewTicker(min(idlePoll, max(limit/4, 50*time.Millisecond)))
	defer tick.Stop()
	since, cpu, at, served := time.Now(), i.wall.CPU(), time.Now(), i.served.Load()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now, used := time.Now(), i.wall.CPU()
		busy := i.isWatched() || i.isVisited() || (used-cpu).Seconds() > idleShare*now.Sub(at).Seconds()+saveAllowance.Seconds()
		cpu, at = used, now
		if n := i.served.Load(); n != served {
			busy, served = true, n
		}
		if busy {
			since = now
		}
		if now.Sub(since) >= limit {
			i.life.stopSandbox(fmt.Sprintf("idle for %s", limit), stopGrace)
			return
		}
	}
}

// saveAllowance is the CPU time that Bothy's own check of an idle sandbox may use.
const saveAllowance = 20 * time.Millisecond

// isWatched reports whether a caller watches a program inside, or waits for one.
func (i *idleness) isWatched() bool {
	if i.life.isServing() {
		return true
	}
	for _, s := range i.sessions.List() {
		if s.Attached > 0 {
			return true
		}
	}
	return false
}

// isVisited reports whether a client is connected to a published port.
func (i *idleness) isVisited() bool {
	return slices.ContainsFunc(i.gateway.Flows(), func(f spec.Flow) bool { return f.Direction == spec.DirectionIn })
}

// usageOf returns the use of the host by a wall and by the keeper. Memory that a local wall shares with the
// keeper, such as an image that programs continue from, counts once.
func usageOf(wall driver.Wall) spec.Usage {
	var sum driver.Usage
	if local, ok := wall.(driver.Local); ok {
		sum = usage.Of(append(local.Pids(), os.Getpid()))
	} else {
		theirs, ours := wall.Usage(), usage.Of([]int{os.Getpid()})
		sum = driver.Usage{CPU: theirs.CPU + ours.CPU, Memory: theirs.Memory + ours.Memory}
	}
	return spec.Usage{CPUSeconds: sum.CPU.Seconds(), Memory: sum.Memory}
}
