package keeper

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/cgroup"
	"github.com/bothy-dev/bothy/internal/keeper/initlink"
	"github.com/bothy-dev/bothy/internal/keeper/usage"
	"github.com/bothy-dev/bothy/internal/wire"
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

// guardMemory ends the largest program inside when the sandbox comes near its memory limit, so that
// the others go on. It also enforces the limit, less strictly, if the host gives us no cgroup.
func (k *Keeper) guardMemory(ctx context.Context) {
	limit := k.launch.Memory
	if limit <= 0 {
		return
	}
	k.guard(ctx, limit, k.memoryGauge(ctx, limit))
}

func (k *Keeper) guard(ctx context.Context, limit int64, current func() (used int64, worked bool)) {
	pause := untilHalf(0, limit)
	var told time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		used, worked := current()
		if pause = untilHalf(used, limit); !worked {
			pause = max(pause, memoryPoll)
			continue
		}
		if near(used, limit) {
			// The shortage may last, with a hundred checks in a second.
			if err := k.killLargest(ctx, used, limit); err != nil && time.Since(told) > memoryTold {
				told = time.Now()
				k.log.Warn("memory is short, and no program was ended", "err", err)
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

// memoryGauge reads the sandbox's memory use: from its cgroup, otherwise by asking the wall. That
// costs the wall a little work, so it happens only if the wall has worked meanwhile. Otherwise
// the last value still holds.
func (k *Keeper) memoryGauge(ctx context.Context, limit int64) func() (used int64, worked bool) {
	if k.launch.Cgroup != "" {
		group := cgroup.Open(k.launch.Cgroup)
		if _, held, err := group.Memory(); err == nil && held > 0 {
			return func() (int64, bool) {
				used, _ := group.Taken(limit / 2)
				return used, true
			}
		}
	}
	last, at := int64(0), time.Duration(0)
	return func() (int64, bool) {
		if usage.CPU(k.wall.Pids())-at < usage.IdleCPU {
			return last, false
		}
		used, err := k.wall.Memory(ctx)
		at = usage.CPU(k.wall.Pids())
		if err == nil {
			last = used
		}
		return last, err == nil
	}
}

func near(current, limit int64) bool {
	if limit <= 0 {
		return false
	}
	return float64(current) > float64(limit)*memoryDanger || limit-current < headroom && limit > 4*headroom
}

// killLargest ends the program with the most memory, as init sees it.
func (k *Keeper) killLargest(ctx context.Context, current, limit int64) error {
	victim, err := k.link.Ask(ctx, wire.InitAsk{Ask: wire.AskLargest})
	if err != nil || victim.PID <= 1 {
		return err
	}
	if err := k.wall.Signal(ctx, victim.PID, int(unix.SIGKILL)); err != nil {
		return fmt.Errorf("end process %d: %w", victim.PID, err)
	}
	name := initlink.Clip(victim.Command)
	k.event("memory.killed", map[string]any{
		"pid": victim.PID, "command": name, "used": current, "limit": limit,
	})
	k.sessions.NoteAll(fmt.Sprintf("%s (process %d) was ended: the sandbox neared its memory limit of %d MiB",
		name, victim.PID, limit>>20))
	time.Sleep(memoryPoll)
	return nil
}

// postMortem explains the fall of the wall by the counters of the host's kernel.
func (k *Keeper) postMortem() string {
	if k.launch.Cgroup != "" {
		if e, err := cgroup.Open(k.launch.Cgroup).Events(); err == nil {
			switch {
			case e.OOMKills > 0:
				return "out of memory: the host's kernel killed it at its memory limit"
			case e.PidsDenied > 0:
				return "out of processes: the host refused more at the limit"
			}
		}
	}
	return ""
}
