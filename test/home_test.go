package test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
)

// path returns the PATH of scripts and tests: that of a sandbox, and bothy.
func path() string {
	return lab.bin + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
}

// home is the state directory of one test. It records every sandbox that lived in it, so that its
// leftovers can be distinguished from other processes.
type home struct {
	dir  string
	also string // another directory of the test; no process may mention it
	stop chan struct{}
	done sync.WaitGroup
	free func() // stops the watchdog
	ids  map[string]bool
}

// newHome makes a state directory with a short path, for at most this long.
func newHome(t *testing.T, limit time.Duration) (*home, error) {
	dir, err := os.MkdirTemp("/tmp", "bh")
	if err != nil {
		return nil, err
	}
	h := &home{dir: filepath.Join(dir, "s"), stop: make(chan struct{}), ids: map[string]bool{}}
	h.done.Go(h.watch)
	h.free = h.guard(t, limit)
	return h, nil
}

func (h *home) watch() {
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		entries, _ := os.ReadDir(filepath.Join(h.dir, "sandboxes"))
		for _, e := range entries {
			if name := e.Name(); !strings.HasPrefix(name, ".") {
				h.ids[name] = true
			}
		}
		select {
		case <-h.stop:
			return
		case <-tick.C:
		}
	}
}

// end removes all sandboxes and reports leftovers.
func (h *home) end(t *testing.T) {
	t.Helper()
	for _, dir := range h.states() {
		reset := exec.Command(filepath.Join(lab.bin, "bothy"), "reset", "-f")
		reset.Env = []string{"PATH=" + path(), "HOME=/nonexistent", "BOTHY_HOME=" + dir}
		if out, err := reset.CombinedOutput(); err != nil {
			t.Errorf("BOTHY_HOME=%q bothy reset -f: %v\n%s", dir, err, out)
		}
	}
	h.free()
	close(h.stop)
	h.done.Wait()
	var left []string
	for deadline := time.Now().Add(patience); ; {
		if left = h.left(); len(left) == 0 || time.Now().After(deadline) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, l := range left {
		t.Errorf("left behind: %s", l)
	}
	for _, pid := range h.pids() {
		_ = syscall.Kill(pid, syscall.SIGKILL) // the next test starts clean
	}
	_ = store.RemoveTree(filepath.Dir(h.dir))
}

// states lists the state directory and those that a test made below it.
func (h *home) states() []string {
	dirs := []string{h.dir}
	for _, top := range []string{h.dir, h.also} {
		if top == "" {
			continue
		}
		_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() || d.Name() != "sandboxes" {
				return nil
			}
			if dir := filepath.Dir(path); dir != h.dir {
				dirs = append(dirs, dir)
			}
			return fs.SkipDir
		})
	}
	return dirs
}

// left lists the leftovers of this state directory's sandboxes.
func (h *home) left() []string {
	left := append(h.processes(), h.cgroups()...)
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, h.dir) {
			left = append(left, "mount "+strings.TrimSpace(line))
		}
	}
	entries, _ := os.ReadDir(h.dir)
	for _, e := range entries {
		left = append(left, "file "+filepath.Join(h.dir, e.Name()))
	}
	return left
}

func (h *home) processes() []string {
	var left []string
	for _, pid := range h.pids() {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		left = append(left, fmt.Sprintf("process %d: %.200q", pid, bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
	}
	return left
}

// pids returns the processes that mention a directory of the test.
func (h *home) pids() []int { return others(h.mentioned) }

// mentioned reports whether a process, given by its directory in /proc, mentions such a directory.
func (h *home) mentioned(proc string) bool {
	line, _ := os.ReadFile(filepath.Join(proc, "cmdline"))
	return bytes.Contains(line, []byte(h.dir)) || h.also != "" && bytes.Contains(line, []byte(h.also))
}

// others returns the processes whose directory in /proc meets a condition, without this process.
func others(is func(proc string) bool) (pids []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if pid, _ := strconv.Atoi(filepath.Base(dir)); pid != os.Getpid() && is(dir) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// cgroups looks for control groups of the recorded sandboxes.
func (h *home) cgroups() []string {
	var left []string
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil
		}
		if id, ok := strings.CutPrefix(d.Name(), "bothy-"); ok && h.ids[id] {
			left = append(left, "cgroup "+path)
		}
		return nil
	})
	return left
}
