package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// held are sizes of a sandbox's memory in MiB when a checkpoint saves it, each with the target for its
// pause.
var held = []struct {
	mib   int
	pause float64
}{
	{64, 50},
	{256, 100},
}

// Targets for continuing from memory, in milliseconds and MiB.
const (
	goOnTarget    = 150
	abreast       = 20
	abreastTarget = 1500
	forkTarget    = 20
)

// fullCheckpoints measures how long it takes to save a sandbox with its memory, to resume from
// there, and to resume twenty forks from there.
func (b *bench) fullCheckpoints(ctx context.Context) error {
	dir := filepath.Join(b.work, "past")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for _, h := range held {
		name := fmt.Sprintf("past-%d", h.mib)
		progress("checkpoint: %d MiB in memory", h.mib)
		if err := b.bothy.do(ctx, "create", "--quiet", "--name", name, "--workspace", "review", "shell", dir); err != nil {
			return err
		}
		fill := fmt.Sprintf("head -c %d /dev/urandom > /tmp/held", h.mib<<20)
		if err := b.bothy.do(ctx, "exec", name, "sh", "-c", fill); err != nil {
			return err
		}
		for range b.samples(7) {
			if err := b.keepAndGoOn(ctx, name, h.mib, h.pause); err != nil {
				return err
			}
		}
	}
	if err := b.forkAbreast(ctx, fmt.Sprintf("past-%d", held[0].mib), held[0].mib); err != nil {
		return err
	}
	return b.bothy.do(ctx, "rm", "--force", "--all")
}

// keepAndGoOn makes a full checkpoint, and continues from it.
func (b *bench) keepAndGoOn(ctx context.Context, name string, mib int, target float64) error {
	time.Sleep(settle)
	what := fmt.Sprintf("%d MiB in memory", mib)
	var out string
	if err := b.time("create --full, "+what, 0, func() (err error) {
		out, err = output(b.bothy.command(ctx, "checkpoint", "create", "--full", "--json", name))
		return err
	}); err != nil {
		return err
	}
	var point struct {
		Name  string        `json:"name"`
		Pause spec.Duration `json:"pause"`
	}
	if err := json.Unmarshal([]byte(out), &point); err != nil {
		return fmt.Errorf("read what checkpoint create says: %w", err)
	}
	pause := b.report.series(groupCheckpoint, "pause of --full, "+what, "bothy", unitMS)
	pause.Target = target
	pause.add(float64(point.Pause) / float64(time.Millisecond))
	if err := b.bothy.do(ctx, "stop", name); err != nil {
		return err
	}
	if err := b.time("restore of a full one (stopped), "+what, goOnTarget, func() error {
		_, err := output(b.bothy.command(ctx, "checkpoint", "restore", "--discard", "--force", name, point.Name))
		return err
	}); err != nil {
		return err
	}
	return b.bothy.do(ctx, "checkpoint", "rm", name, point.Name)
}

// forkAbreast makes many running forks at once, and measures their memory.
func (b *bench) forkAbreast(ctx context.Context, name string, mib int) error {
	before, err := b.list(ctx)
	if err != nil {
		return err
	}
	time.Sleep(settle)
	what := fmt.Sprintf("fork of %d MiB in memory, %d at once", mib, abreast)
	if err := b.time(what, abreastTarget, func() error {
		_, err := output(b.bothy.command(ctx, "fork", "-n", fmt.Sprint(abreast), name))
		return err
	}); err != nil {
		return err
	}
	all, err := b.list(ctx)
	if err != nil {
		return err
	}
	s := b.report.series(groupCheckpoint, what+", private, each", "bothy", unitMiB)
	s.Target = forkTarget
	all = slices.DeleteFunc(all, func(fork string) bool { return slices.Contains(before, fork) || !strings.HasPrefix(fork, name) })
	if err := b.apart(ctx, all, abreast); err != nil {
		return err
	}
	for _, fork := range all {
		keeper, err := b.bothy.keeper(ctx, fork)
		if err != nil {
			return err
		}
		var u usage
		for _, pid := range processes(keeper) {
			if err := u.measure(pid); err != nil {
				return err
			}
		}
		s.add(float64(u.total()) / 1024)
	}
	return nil
}

// apart checks that all forks exist, each with a name, an identity and random numbers of its own.
func (b *bench) apart(ctx context.Context, forks []string, want int) error {
	seen := map[string]bool{}
	for _, fork := range forks {
		out, err := output(b.bothy.command(ctx, "exec", fork, "sh", "-c", "hostname; cat /etc/machine-id; head -c 16 /dev/urandom | od -An -tx1"))
		if err != nil {
			return err
		}
		for line := range strings.Lines(out) {
			seen[line] = true
		}
	}
	if len(forks) != want || len(seen) != 3*want {
		return fmt.Errorf("of %d forks there are %d, with %d names, identities and random numbers of their own", want, len(forks), len(seen))
	}
	return nil
}
