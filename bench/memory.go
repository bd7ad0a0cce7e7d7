package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// crowd is the number of sandboxes that are idle at once. calm is how long they are left alone before
// they are measured.
const (
	crowd = 50
	calm  = 10 * time.Second
)

// memoryTarget is the allowed memory of one idle sandbox, in MiB.
const memoryTarget = 40

// roles are the processes of a sandbox; inside are the programs in it.
var roles = []string{"keeper", "sentry", "gofer", "inside"}

// memory measures the memory of many idle sandboxes, and checks that nothing is left of them.
func (b *bench) memory(ctx context.Context) error {
	dir := filepath.Join(b.work, "memory")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	before := memInfo("MemAvailable")
	progress("memory: start %d sandboxes", crowd)
	for i := range crowd {
		ms, err := b.idle(ctx, dir, fmt.Sprintf("idle-%d", i))
		if err != nil {
			return err
		}
		b.report.series(groupMemory, "create and start", "bothy", unitMS).add(ms)
	}
	if err := wait(ctx, calm); err != nil {
		return err
	}
	available := float64(before-memInfo("MemAvailable")) / crowd
	b.report.series(groupMemory, "MemAvailable of the host, each", "bothy", unitMiB).add(available)
	list, err := b.list(ctx)
	if err != nil {
		return err
	}
	var pids []int
	for _, name := range list {
		more, err := b.weigh(ctx, name)
		if err != nil {
			return fmt.Errorf("measure %s: %w", name, err)
		}
		pids = append(pids, more...)
	}
	return b.sweep(ctx, pids)
}

// wait sleeps, unless the run is aborted.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// idle makes a sandbox with a workspace of its own and starts it.
func (b *bench) idle(ctx context.Context, dir, name string) (ms float64, err error) {
	workspace := filepath.Join(dir, name)
	if err := os.Mkdir(workspace, 0o755); err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := b.bothy.do(ctx, "create", "--quiet", "--name", name, "shell", workspace); err != nil {
		return 0, err
	}
	err = b.bothy.do(ctx, "exec", name, "true")
	return float64(time.Since(begin).Microseconds()) / 1000, err
}

// list names all sandboxes.
func (b *bench) list(ctx context.Context) (names []string, err error) {
	text, err := output(b.bothy.command(ctx, "ls", "--json"))
	if err != nil {
		return nil, err
	}
	var l struct {
		Sandboxes []struct{ Name string }
	}
	err = json.Unmarshal([]byte(text), &l)
	for _, s := range l.Sandboxes {
		names = append(names, s.Name)
	}
	return names, err
}

// weigh measures one sandbox and returns its processes.
func (b *bench) weigh(ctx context.Context, name string) ([]int, error) {
	keeper, err := b.bothy.keeper(ctx, name)
	if err != nil {
		return nil, err
	}
	pids := processes(keeper)
	var all usage
	parts := map[string]*usage{}
	for _, pid := range pids {
		r := role(pid)
		if parts[r] == nil {
			parts[r] = &usage{}
		}
		if err := errors.Join(all.measure(pid), parts[r].measure(pid)); err != nil {
			return nil, err
		}
	}
	b.keep(all, parts)
	return pids, nil
}

// keep records one sandbox. A file that several roles have open counts for the sentry, its owner.
func (b *bench) keep(all usage, parts map[string]*usage) {
	add := func(name string, kib int64) *Series {
		s := b.report.series(groupMemory, name, "bothy", unitMiB)
		s.add(float64(kib) / 1024)
		return s
	}
	add("private, each", all.total()).Target = memoryTarget
	for _, r := range roles {
		switch u := parts[r]; {
		case u == nil:
			add("private: "+r, 0)
		case r == "sentry":
			add("private: "+r, u.total())
		default:
			add("private: "+r, u.private)
		}
	}
	add("proportional, each", all.pss)
}

// patience is how long a process may take to end after its sandbox was removed, on a busy host.
const patience = 2 * time.Second

// sweep removes all sandboxes and looks for leftovers.
func (b *bench) sweep(ctx context.Context, pids []int) error {
	born := map[int]string{}
	for _, pid := range pids {
		born[pid] = start(pid)
	}
	progress("memory: remove %d sandboxes", crowd)
	begin := time.Now()
	if err := b.bothy.do(ctx, "rm", "--force", "--all"); err != nil {
		return err
	}
	b.report.series(groupMemory, "rm --force --all", "bothy", unitMS).add(float64(time.Since(begin).Microseconds()) / 1000)
	left := alive(born)
	if len(left) > 0 {
		b.report.note("%d of %d processes were still ending when rm returned: %s", len(left), len(pids), strings.Join(left, ", "))
	}
	for end := time.Now().Add(patience); len(left) > 0 && time.Now().Before(end); left = alive(born) {
		time.Sleep(patience / 100)
	}
	dirs, _ := filepath.Glob(filepath.Join(b.bothy.home, "sandboxes", "*"))
	left = append(left, dirs...)
	if table, err := os.ReadFile("/proc/self/mountinfo"); err == nil && strings.Contains(string(table), b.bothy.home) {
		left = append(left, "a mount in the state directory")
	}
	if len(left) > 0 {
		return fmt.Errorf("left behind: %s", strings.Join(left, ", "))
	}
	return nil
}

// alive returns those of some processes that still run. A zombie does not count: its memory is freed,
// and the host's init will reap it.
func alive(born map[int]string) (left []string) {
	for pid, at := range born {
		if now := start(pid); now != "" && now == at {
			left = append(left, fmt.Sprintf("process %d (%s)", pid, role(pid)))
		}
	}
	return left
}
