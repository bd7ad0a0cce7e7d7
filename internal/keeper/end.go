package keeper

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/cgroup"
	"github.com/bothy-dev/bothy/internal/driver"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// noteFall notes that the sandbox ended without a request.
func (k *Keeper) noteFall() {
	reason := "init ended"
	if err := k.wall.Err(); err != nil {
		reason = err.Error()
	}
	if why := postMortem(k.launch.Cgroup); why != "" {
		reason += ": " + why
	}
	k.life.noteFall(reason)
	k.status.Update(func(st *spec.Status) { st.Crashed = true })
}

// fallTime is how long the keeper waits to notice a dying wall.
const fallTime = time.Second

// obituary tells a caller why its program ended with the whole sandbox.
func (k *Keeper) obituary() error {
	reason := "the sandbox ended while the command ran"
	hint := "bothy logs --source events " + k.spec.Name + " tells what went before; the next command starts it again"
	select {
	case <-k.wall.Done():
		if err := k.wall.Err(); errors.Is(err, driver.ErrLayer) {
			return badLayer(k.spec.Name, k.built.Restore, fmt.Errorf("%s: %w", reason, err))
		} else if err != nil {
			reason += ": " + err.Error()
		}
		if why := postMortem(k.launch.Cgroup); why != "" {
			reason += ": " + why
			if why == outOfMemory {
				hint += "; a new sandbox may have a larger --memory"
			}
		}
	case <-time.After(fallTime):
	}
	return spec.Errorf(spec.ErrSandbox, "%s", reason).WithHint("%s", hint)
}

// unlessFallen keeps an error of the wall, unless the wall just fell: the
// caller then tries again with the sandbox's next start.
func (k *Keeper) unlessFallen(err error) error {
	if !errors.Is(err, spec.ErrSandbox) {
		return err
	}
	select {
	case <-k.wall.Done():
		if damage := k.wall.Err(); errors.Is(damage, driver.ErrLayer) { // the next start fails
			return badLayer(k.spec.Name, k.built.Restore, damage)
		}
		return spec.Errorf(spec.ErrStopping, "sandbox %s just ended", k.spec.Name)
	case <-time.After(fallTime):
		return err
	}
}

// lostStart tells a caller whether its program may have begun although its start failed.
func (k *Keeper) lostStart(err error) error {
	if !errors.Is(err, spec.ErrMayHaveRun) {
		return k.unlessFallen(err)
	}
	return mayHaveRun(k.spec.Name, err)
}

// mayHaveRun is the error for a program whose start was not confirmed.
func mayHaveRun(sandbox string, err error) error {
	return (&spec.Error{Class: spec.ErrMayHaveRun, Op: "the command may have run", Err: err}).
		WithHint("check its effects before you run it again; bothy logs --source events %s tells what became of the sandbox", sandbox)
}

// stopFor stops the sandbox for its own misbehaviour. Callers that wait for a program are told why.
func (k *Keeper) stopFor(why string) {
	hint := "written files are kept, and the next command starts it again, with some room to clean up in"
	if k.spec.Limits.Disk == 0 {
		hint += "; or let sandboxes have more: disk in config.yaml"
	}
	k.life.askToStop(why, verdictGrace, spec.Errorf(spec.ErrSandbox, "sandbox %s was stopped: %s", k.spec.Name, why).WithHint("%s", hint))
}

// orphanPoll is how often a keeper checks whether its sandbox is an orphan.
const orphanPoll = 2 * time.Second

// watchOrphan ends an orphaned sandbox.
func (k *Keeper) watchOrphan(ctx context.Context) {
	tick := time.NewTicker(orphanPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if why := k.orphan(); why != "" {
			k.life.discardSandbox(why)
			return
		}
	}
}

// orphan says why the sandbox is an orphan; empty if it is not. Either the directory by which
// commands find it was deleted, or it was made for one command whose caller is gone.
func (k *Keeper) orphan() string {
	var st unix.Stat_t
	if err := unix.Fstat(LockFD, &st); err == nil && st.Nlink == 0 {
		return "its directory was deleted"
	}
	if !k.spec.Remove || k.dir.Awaited() {
		return ""
	}
	if k.life.isServing() {
		return ""
	}
	return "no command came"
}

// shutDown ends the programs inside, saves the root layer, takes the wall down
// and writes the last status.
func (k *Keeper) shutDown() {
	how := k.life.ending()
	stopping := func() {
		k.status.Update(func(st *spec.Status) { st.State, st.Reason = spec.Stopping, how.reason })
	}
	if how.discard {
		// In parallel with the rest, as it waits for the disk: the process that removes the sandbox
		// reads there which cgroup to remove.
		var wg sync.WaitGroup
		wg.Go(stopping)
		k.takeDown()
		k.ports.Close()
		k.gateway.Close()
		_ = k.bill.Close() // the user who had it made may want to know
		k.traffic.Close()
		wg.Wait()
		return
	}
	stopping()
	select {
	case <-k.wall.Done():
	default:
		k.saver.awaitSave() // a memory image may be being cancelled: its caller gets an answer only after that
		k.life.awaitStarts(k.wall.Done())
		err := k.endPrograms(how)
		if err == nil && how.verdict != nil { // a save takes its time, and the sandbox must not write more
			if err := haltWrites(context.Background(), k.wall); err != nil {
				k.log.Warn("have the sandbox stand still", "err", err)
			}
		}
		if err == nil {
			bounded(hangTime, k.worktrees.RemoveAll)
			err = k.saver.saveLast(context.Background())
		}
		if err != nil {
			k.log.Error("last save", "err", err)
			k.writeEvent("save.failed", map[string]any{"error": err.Error()})
			k.unsaved = k.explainLoss(err)
		}
	}
	k.takeDown()
	k.ports.Close()
	k.gateway.Close()
	if err := k.bill.Close(); err != nil && k.unsaved == nil { // which has the same reason
		k.unsaved = uncounted(k.spec.Name, k.dir.Dir, err)
	}
	_ = k.uploads.Close() // makes the written sums exact; if that fails they are higher than the bytes sent
	k.traffic.Close()
	if how.verdict != nil {
		k.disk.Audit(k.wall)
	}
	now := time.Now().UTC()
	k.status.Update(func(st *spec.Status) {
		st.State, st.StoppedAt, st.KeeperPID = spec.Stopped, &now, 0
	})
	k.writeEvent("stopped", map[string]any{"reason": how.reason})
}

// explainLoss explains the effect of a failed last save.
func (k *Keeper) explainLoss(err error) error {
	hint := "make room where " + k.dir.Dir + " is"
	if other := spec.Hint(err); other != "" && !store.IsFull(err) {
		hint = other
	}
	select {
	case <-k.wall.Done():
		if died := k.wall.Err(); died != nil {
			err, hint = died, "bothy logs --source events "+k.spec.Name+" tells what went before"
		}
	case <-time.After(lastBreath):
	}
	if wrong := spec.Hint(err); wrong != "" {
		hint = wrong
	}
	if errors.Is(err, driver.ErrOverdue) || errors.Is(err, context.DeadlineExceeded) {
		hint = "bothy logs --source events " + k.spec.Name + " tells what went before"
	}
	since := "since it was created"
	if at := k.saver.savedLayer().SavedAt; at != nil {
		since = "since " + at.Local().Format(time.DateTime)
	}
	return (&spec.Error{Op: "stop sandbox " + k.spec.Name, Err: fmt.Errorf("it is stopped, but every change outside the home and the shared directories %s is lost: %w", since, err)}).
		WithHint("%s", hint)
}

// lastBreath is how long after a failed call a wall's death is noticed.
const lastBreath = 200 * time.Millisecond

// hangTime is how long a wall may take to list its processes.
const hangTime = 5 * time.Second

// endPrograms asks all programs inside to end and waits a little. An error means that the wall
// does not answer.
func (k *Keeper) endPrograms(how ending) error {
	ctx, cancel := context.WithTimeout(context.Background(), how.grace+hangTime)
	defer cancel()
	deadline := time.Now().Add(how.grace)
	asked := false
	for {
		tasks, err := k.wall.Tasks(ctx)
		if err != nil {
			return err
		}
		if len(tasks) <= 1 || time.Now().After(deadline) {
			return nil
		}
		if !asked {
			if how.verdict != nil {
				k.sessions.FailAll(how.verdict)
			} else {
				k.sessions.NoteAll("the sandbox is being stopped: " + how.reason)
			}
			k.sessions.HangUp() // shells ignore SIGTERM
			for _, t := range tasks {
				if t.PID != 1 {
					_ = k.wall.Signal(ctx, t.PID, int(unix.SIGTERM))
				}
			}
			asked = true
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// awaitCommands lets commands under way hear how the sandbox ended.
func (k *Keeper) awaitCommands() {
	done := make(chan struct{})
	go func() { k.wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Second):
	}
}

// haltWrites stops all writes for good: the caller then takes the wall down.
func haltWrites(ctx context.Context, wall driver.Wall) error {
	err := wall.Settle(ctx)
	if err == nil {
		_, err = wall.Pause(ctx)
	}
	return err
}

// uncounted explains the effect of a bill that could not be written at the end.
func uncounted(sandbox, dir string, err error) error {
	return (&spec.Error{Op: "stop sandbox " + sandbox, Err: fmt.Errorf("it is stopped, but what models have taken last is not in its bill: %w", err)}).
		WithHint("make room where %s is", dir)
}

const outOfMemory = "out of memory: the host's kernel killed it at its memory limit"

// postMortem explains the fall of the wall by the counters of its cgroup; empty if they tell nothing.
func postMortem(group string) string {
	if group != "" {
		if e, err := cgroup.Open(group).Events(); err == nil {
			switch {
			case e.OOMKills > 0:
				return outOfMemory
			case e.PidsDenied > 0:
				return "out of processes: the host refused more at the limit"
			}
		}
	}
	return ""
}
