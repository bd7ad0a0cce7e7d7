package faults

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/test/harness"
)

// otherBuild makes a copy of the programs in which the keeper claims to be another build: one letter of
// the identifier that Go's linker wrote is changed.
func otherBuild(t *testing.T, c *harness.Caller) string {
	t.Helper()
	dir := filepath.Join(c.Base, "other-build")
	c.Mkdir(t, dir)
	bothy := harness.CopyPrograms(t, c.Binary, dir)
	path := harness.Beside(bothy, "bothy-keeper")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	id := regexp.MustCompile(`Go\x00\x00([\w-]{20}/[\w/-]+)`).FindSubmatchIndex(data)
	if id == nil {
		t.Fatal("the binary has no identifier of its build")
	}
	own := bytes.Clone(data[id[2]:id[3]])
	other := bytes.Clone(own)
	other[0] = own[0] ^ 1
	if err := os.WriteFile(path, bytes.ReplaceAll(data, own, other), 0o755); err != nil {
		t.Fatal(err)
	}
	return bothy
}

// TestMemoryOfOtherBuild upgrades Bothy while a sandbox runs: a sandbox that the old build started
// cannot save its memory, because the new build could not continue with it.
func TestMemoryOfOtherBuild(t *testing.T) {
	harness.AsUser(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		c.Must(t, "create", "--name", "box", "shell", c.Work)
		c.Must(t, "exec", "box", "true")
		old := c.Binary
		c.Binary = otherBuild(t, c)
		for _, args := range [][]string{{"checkpoint", "create", "--full", "box"}, {"fork", "--name", "copy", "box"}} {
			r := c.Run(args...)
			explained(t, r)
			if r.Code != 5 || !strings.Contains(r.Stderr, "another build of bothy") || !strings.Contains(r.Stderr, "--files") {
				t.Errorf("%q: %v", args, r)
			}
		}
		c.Must(t, "checkpoint", "create", "--files", "box")
		if list := c.Must(t, "checkpoint", "ls", "box"); strings.Contains(list, " full ") {
			t.Errorf("something is left of what was refused: %s", list)
		}
		c.Must(t, "stop", "box")
		c.Must(t, "exec", "box", "true")
		c.Must(t, "checkpoint", "create", "--full", "box")
		c.Binary = old
		if r := c.Run("checkpoint", "create", "--full", "box"); r.Code != 5 {
			t.Errorf("the old build: %v", r)
		}
		c.Must(t, "rm", "-f", "box")
	})
}

// TestSaveOnFullMemory fills a state directory in memory while programs write to the root layer.
// Background saves fail, and the sandbox continues; it loses nothing that was saved.
func TestSaveOnFullMemory(t *testing.T) {
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		c.Env = append(c.Env, "BOTHY_SAVE_EVERY=200ms")
		disk, bothy := small(t, c, "size=96m,mode=0700")
		must := func(args ...string) harness.Result {
			t.Helper()
			r := bothy(args...)
			if r.Code != 0 {
				t.Fatalf("%v", r)
			}
			return r
		}
		must("create", "--name", "box", "shell", c.Work)
		must("exec", "-u", "root", "box", "sh", "-c", "echo saved > /opt/saved; head -c 3000000 /dev/urandom > /opt/more")
		must("stop", "box")
		started := func() int {
			logs, _ := filepath.Glob(filepath.Join(disk, "sandboxes/*/log/events.jsonl"))
			events, err := os.ReadFile(logs[0])
			if err != nil {
				t.Fatal(err)
			}
			return bytes.Count(events, []byte(`"event":"started"`))
		}
		must("exec", "box", "true")
		before := started()
		free := fill(t, disk)
		for range 4 {
			r := bothy("exec", "-u", "root", "box", "sh", "-c", "dd if=/dev/urandom of=/opt/big bs=1M count=4; rm -f /opt/big; echo x > /opt/new; cat /opt/saved")
			if !strings.Contains(r.Stdout, "saved\n") {
				t.Errorf("%v", r)
			}
			time.Sleep(time.Second) // several saves are due
		}
		if now := started(); now != before {
			t.Errorf("the sandbox ended and was started again %d times", now-before)
		}
		free()
		must("exec", "-u", "root", "box", "sh", "-c", "echo later > /opt/later")
		must("stop", "box")
		if r := must("exec", "box", "cat", "/opt/saved", "/opt/later"); r.Stdout != "saved\nlater\n" {
			t.Errorf("%v", r)
		}
		must("rm", "-f", "box")
	})
}

// TestCrashIsTold kills the sentry, then the gofer. The next start reports once which of them died, and
// since when changes are lost.
func TestCrashIsTold(t *testing.T) {
	harness.AsUser(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		c.Env = append(c.Env, "BOTHY_SAVE_EVERY=1h")
		for _, victim := range []string{theSentry, theGofer} {
			c.Must(t, "create", "--name", "box", "shell", c.Work)
			c.Must(t, "exec", "box", "true")
			pid := find(c, victim, nil)
			if pid == 0 {
				t.Fatalf("there is no %s", victim)
			}
			_ = syscall.Kill(pid, syscall.SIGKILL)
			harness.WaitFor(t, harness.Timeout, "the keeper to end", func() bool { return len(c.Keepers()) == 0 })
			r := c.Run("exec", "box", "true")
			if r.Code != 0 || !strings.Contains(r.Stderr, "ended by itself: the "+victim) || !strings.Contains(r.Stderr, "since it was created is lost") {
				t.Errorf("the death of the %s is not told: %v", victim, r)
			}
			c.Must(t, "stop", "box")
			if r := c.Run("exec", "box", "true"); strings.Contains(r.Stderr, "lost") {
				t.Errorf("told again: %v", r)
			}
			c.Must(t, "rm", "-f", "box")
		}
	})
}
