package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// below are sizes of a sandbox's home: how many files of 16 MiB, and how many of a few bytes, stay
// unchanged from one checkpoint to the next.
var below = []struct {
	name         string
	large, small int
}{
	{"nothing", 0, 0},
	{"1 GiB in 64 files", 64, 0},
	{"10 GiB in 640 files", 640, 0},
	{"10,000 small files", 0, 10_000},
}

// Targets of a checkpoint of files, in milliseconds.
const (
	checkpointTarget = 10
	rollbackTarget   = 10
)

// checkpoints measures saving the files of a running sandbox, and restoring them, after one small file
// was changed; and then the same with its memory.
func (b *bench) checkpoints(ctx context.Context) error {
	dir := filepath.Join(b.work, "checkpoint")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for i, w := range below {
		name := fmt.Sprintf("below-%d", i)
		progress("checkpoint: %s below", w.name)
		if err := b.fillHome(ctx, dir, name, w.large, w.small); err != nil {
			return err
		}
	}
	n := b.samples(21)
	for round := range n {
		progress("checkpoint: round %d of %d", round+1, n)
		for i, w := range below {
			if err := b.keepAndGoBack(ctx, fmt.Sprintf("below-%d", i), w.name); err != nil {
				return err
			}
		}
	}
	for i := range below {
		if err := b.bothy.do(ctx, "rm", "--force", fmt.Sprintf("below-%d", i)); err != nil {
			return err
		}
	}
	return b.fullCheckpoints(ctx)
}

// fillHome makes a sandbox with this many files in its home, and its first checkpoint.
func (b *bench) fillHome(ctx context.Context, dir, name string, large, small int) error {
	if err := b.bothy.do(ctx, "create", "--quiet", "--name", name, "--workspace", "review", "shell", dir); err != nil {
		return err
	}
	script := fmt.Sprintf(`mkdir ~/large ~/small; i=0; while [ $i -lt %d ]; do head -c 16777216 /dev/urandom > ~/large/$i; i=$((i+1)); done; cd ~/small; seq %d | xargs -r touch; sync`, large, small)
	if err := b.bothy.do(ctx, "exec", name, "sh", "-c", script); err != nil {
		return err
	}
	return b.bothy.do(ctx, "checkpoint", "create", name, "base")
}

// keepAndGoBack changes a file, makes a checkpoint, and restores the first one.
func (b *bench) keepAndGoBack(ctx context.Context, name, what string) error {
	if err := b.bothy.do(ctx, "exec", name, "sh", "-c", "date +%N > ~/changed"); err != nil {
		return err
	}
	time.Sleep(settle)
	var out string
	err := b.time("create, "+what+" below", checkpointTarget, func() (err error) {
		out, err = output(b.bothy.command(ctx, "checkpoint", "create", "--json", name))
		return err
	})
	if err != nil {
		return err
	}
	var point struct {
		Name  string        `json:"name"`
		Pause spec.Duration `json:"pause"`
	}
	if err := json.Unmarshal([]byte(out), &point); err != nil {
		return fmt.Errorf("read what checkpoint create says: %w", err)
	}
	pause := b.report.series(groupCheckpoint, "pause, "+what+" below", "bothy", unitMS)
	pause.Target = checkpointTarget
	pause.add(float64(point.Pause) / float64(time.Millisecond))
	if err := b.bothy.do(ctx, "stop", name); err != nil {
		return err
	}
	if err := b.time("restore (stopped), "+what+" below", rollbackTarget, func() error {
		_, err := output(b.bothy.command(ctx, "checkpoint", "restore", name, "base"))
		return err
	}); err != nil {
		return err
	}
	return b.bothy.do(ctx, "checkpoint", "rm", name, point.Name)
}

// time records how long something takes.
func (b *bench) time(name string, target float64, do func() error) error {
	began := time.Now()
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	s := b.report.series(groupCheckpoint, name, "bothy", unitMS)
	s.Target = target
	s.add(float64(time.Since(began)) / float64(time.Millisecond))
	return nil
}
