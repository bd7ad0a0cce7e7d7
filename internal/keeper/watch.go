package keeper

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/keeper/usage"
	"github.com/bothy-dev/bothy/spec"
)

// idlePoll is the longest time between two checks for idleness.
const idlePoll = 10 * time.Second

// idleShare is the part of one processor below which the programs inside count as idle.
const idleShare = 0.01

// stopWhenIdle stops a sandbox that is unused and has no working program.
func (k *Keeper) stopWhenIdle(ctx context.Context) {
	limit := time.Duration(k.spec.IdleTimeout)
	if limit <= 0 {
		return
	}
	tick := time.NewTicker(min(idlePoll, max(limit/4, 50*time.Millisecond)))
	defer tick.Stop()
	since, cpu, at, served := time.Now(), usage.CPU(k.wall.Pids()), time.Now(), k.served.Load()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now, used := time.Now(), usage.CPU(k.wall.Pids())
		busy := k.busy() || k.visited() || (used-cpu).Seconds() > idleShare*now.Sub(at).Seconds()+saveAllowance.Seconds()
		cpu, at = used, now
		if n := k.served.Load(); n != served {
			busy, served = true, n
		}
		if busy {
			since = now
		}
		if now.Sub(since) >= limit {
			k.life.stop(fmt.Sprintf("idle for %s", limit), stopGrace)
			return
		}
	}
}

// saveAllowance is the CPU time that Bothy's own check of an idle sandbox may use.
const saveAllowance = 20 * time.Millisecond

// busy reports whether a caller watches a program inside, or waits for one.
func (k *Keeper) busy() bool {
	if k.life.isServing() {
		return true
	}
	for _, s := range k.sessions.List() {
		if s.Attached > 0 {
			return true
		}
	}
	return false
}

// visited reports whether a client is connected to a published port.
func (k *Keeper) visited() bool {
	return slices.ContainsFunc(k.gateway.Flows(), func(f spec.Flow) bool { return f.Direction == spec.DirectionIn })
}

// usage returns what the sandbox's processes use of the host.
func (k *Keeper) usage() spec.Usage {
	pids := append(k.wall.Pids(), os.Getpid())
	return spec.Usage{CPUSeconds: usage.CPU(pids).Seconds(), Memory: usage.Resident(pids)}
}
