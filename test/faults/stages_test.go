package faults

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/spec"
	"github.com/bothy-dev/bothy/test/harness"
)

// rounds is how often every command is struck for every victim at a random moment.
const rounds = 3

// TestKillAtRandomMoments kills every process of a sandbox in the middle of every command, at moments
// spread over its duration.
func TestKillAtRandomMoments(t *testing.T) {
	harness.Sweep(t, "soak")
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		rng := seed(t)
		c.Must(t, "create", "--name", "box", "shell", c.Work)
		n := 0
		for _, op := range []string{"start", "exec", "stop"} {
			for _, victim := range victims {
				for round := range rounds {
					n++
					mark := fmt.Sprintf("%s-%s-%d", op, victim, round)
					var args []string
					var length time.Duration
					// This acknowledged data must exist afterwards.
					r := recovers(t, c, "exec", "box", "sh", "-c", "echo "+mark+" > ~/acknowledged && echo "+mark+" > acknowledged && mkdir -p ~/tree && echo "+mark+" > ~/tree/"+mark)
					if r.Code != 0 {
						t.Fatal("the sandbox is lost")
					}
					switch op {
					case "start":
						recovers(t, c, "stop", "box")
						args, length = []string{"exec", "box", "echo", "started"}, 250*time.Millisecond
					case "exec":
						args, length = []string{"exec", "box", "sh", "-c", "i=0; while [ $i -lt 20 ]; do echo $i > ~/counter; i=$((i+1)); done; echo done"}, 60*time.Millisecond
					case "stop":
						args, length = []string{"stop", "box"}, 80*time.Millisecond
					}
					delay := time.Duration(rng.Int64N(int64(length)))
					r, struck := strike(t, c, victim, after(delay), args...)
					if victim != theCommand {
						explained(t, r)
					}
					if t.Failed() {
						t.Logf("so far, last %s after %v (struck: %v): code %d", mark, delay, struck, r.Code)
					}
					if l := recovers(t, c, "ls"); !strings.Contains(l.Stdout, "box") {
						t.Fatalf("%s after %v: ls has lost the sandbox: %v", mark, delay, l)
					}
					got := recovers(t, c, "exec", "box", "sh", "-c", "cat ~/acknowledged acknowledged ~/tree/"+mark)
					if got.Stdout != strings.Repeat(mark+"\n", 3) {
						t.Fatalf("%s after %v: acknowledged files are lost: %v", mark, delay, got)
					}
					settled(t, c, 1)
				}
			}
		}
		putAway(t, c)
		t.Logf("%d strikes", n)
	})
}

// TestKillDuringCreateAndRemove kills during creation and removal: afterwards the sandbox exists
// completely or not at all.
func TestKillDuringCreateAndRemove(t *testing.T) {
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		rng := seed(t)
		whole := func(what string) {
			t.Helper()
			l := recovers(t, c, "ls", "-q")
			if strings.TrimSpace(l.Stdout) == "box" {
				if r := recovers(t, c, "exec", "box", "echo", "whole"); r.Stdout != "whole\n" {
					t.Fatalf("%s: half a sandbox: %v", what, r)
				}
				recovers(t, c, "rm", "-f", "box")
			}
			if l = c.Run("ls", "-q"); strings.TrimSpace(l.Stdout) != "" {
				t.Fatalf("%s: still there: %v", what, l)
			}
			settled(t, c, 0)
			if t.Failed() {
				t.Fatal(what)
			}
		}
		for round := range 3 * rounds {
			delay := time.Duration(rng.Int64N(int64(20 * time.Millisecond)))
			strike(t, c, theCommand, after(delay), "create", "--name", "box", "shell", c.Work)
			whole(fmt.Sprintf("create %d, killed after %v", round, delay))
		}
		for _, victim := range victims {
			for round := range rounds {
				c.Must(t, "run", "-d", "--name", "box", "shell", c.Work, "--", "sleep", "100")
				if c.Run("exec", "-u", "root", "box", "mkdir", "-p", "/opt/a/b").Code != 0 {
					t.Fatal("no root layer")
				}
				delay := time.Duration(rng.Int64N(int64(60 * time.Millisecond)))
				r, _ := strike(t, c, victim, after(delay), "rm", "-f", "box")
				if victim != theCommand {
					explained(t, r)
				}
				whole(fmt.Sprintf("rm %d, %s killed after %v", round, victim, delay))
			}
		}
		for _, victim := range victims {
			delay := time.Duration(rng.Int64N(int64(300 * time.Millisecond)))
			r, _ := strike(t, c, victim, after(delay), "run", "--rm", "--name", "box", "shell", c.Work, "--", "sleep", "0.1")
			if victim != theCommand {
				explained(t, r)
			}
			whole(fmt.Sprintf("run --rm, %s killed after %v", victim, delay))
		}
		// The next creation sweeps the leftovers of the kills.
		c.Must(t, "create", "--name", "last", "shell", c.Work)
		c.Must(t, "rm", "-f", "last")
		c.NothingLeft(t)
		c.TidyState(t)
		if entries, err := os.ReadDir(filepath.Join(c.State, "sandboxes")); err != nil || len(entries) != 0 {
			t.Errorf("left in the state directory: %v %v", harness.Tree(filepath.Join(c.State, "sandboxes")), err)
		}
	})
}

// exists returns a condition that holds when the state directory has a matching file.
func exists(c *harness.Caller, pattern string) func() bool {
	return func() bool {
		found, _ := filepath.Glob(filepath.Join(c.State, pattern))
		return len(found) > 0
	}
}

// TestKillAtStages waits until a stage shows on disk and then strikes.
func TestKillAtStages(t *testing.T) {
	state := func(c *harness.Caller, want spec.State) func() bool {
		return func() bool {
			found, _ := filepath.Glob(filepath.Join(c.State, "sandboxes/*/status.json"))
			for _, f := range found {
				var st spec.Status
				if b, err := os.ReadFile(f); err == nil && json.Unmarshal(b, &st) == nil && st.State == want {
					return true
				}
			}
			return false
		}
	}
	stages := []struct {
		name string
		args []string
		when func(c *harness.Caller) func() bool
	}{
		{"start: a keeper is there", []string{"exec", "box", "true"}, func(c *harness.Caller) func() bool {
			return func() bool { return len(c.Keepers()) > 0 }
		}},
		{"start: the gofer is there", []string{"exec", "box", "true"}, func(c *harness.Caller) func() bool { return func() bool { return find(c, theGofer, nil) != 0 } }},
		{"start: the sentry is there", []string{"exec", "box", "true"}, func(c *harness.Caller) func() bool { return func() bool { return find(c, theSentry, nil) != 0 } }},
		{"start: the state is running", []string{"exec", "box", "true"}, func(c *harness.Caller) func() bool { return state(c, spec.Running) }},
		{"stop: the state is stopping", []string{"stop", "box"}, func(c *harness.Caller) func() bool { return state(c, spec.Stopping) }},
		{"stop: the layer is being saved", []string{"stop", "box"}, func(c *harness.Caller) func() bool { return exists(c, "sandboxes/*/layers/.root-*") }},
		{"stop: the state is stopped", []string{"stop", "box"}, func(c *harness.Caller) func() bool { return state(c, spec.Stopped) }},
	}
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		c.Must(t, "create", "--name", "box", "shell", c.Work)
		for i, stage := range stages {
			for _, victim := range victims {
				mark := fmt.Sprintf("%d-%s", i, victim)
				what := stage.name + ", kill the " + victim
				recovers(t, c, "exec", "box", "sh", "-c", "echo "+mark+" > ~/ack; echo "+mark+" > ack")
				recovers(t, c, "exec", "-u", "root", "box", "sh", "-c", "echo "+mark+" > /opt/layer")
				if strings.HasPrefix(stage.name, "start") {
					recovers(t, c, "stop", "box") // this saves the layer: acknowledged
				}
				r, struck := strike(t, c, victim, stage.when(c), stage.args...)
				if victim != theCommand {
					explained(t, r)
				}
				got := recovers(t, c, "exec", "box", "sh", "-c", "cat ~/ack ack")
				if got.Stdout != mark+"\n"+mark+"\n" {
					t.Errorf("%s: acknowledged files are lost: %v", what, got)
				}
				layer := recovers(t, c, "exec", "box", "cat", "/opt/layer").Stdout
				if strings.HasPrefix(stage.name, "start") && layer != mark+"\n" {
					t.Errorf("%s: the saved root layer is lost: %q", what, layer)
				}
				if victim == theCommand && !strings.HasPrefix(stage.name, "start") && layer != mark+"\n" {
					t.Errorf("%s: only the command was killed, and the root layer is lost: %q", what, layer)
				}
				settled(t, c, 1)
				if t.Failed() {
					t.Fatalf("%s (struck: %v): %v", what, struck, r)
				}
			}
		}
		putAway(t, c)
	})
}

// TestRootLayerLoss kills the keeper after a background save: files written before it exist. Later
// files may be missing, but are never incomplete.
func TestRootLayerLoss(t *testing.T) {
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		c.Env = append(c.Env, "BOTHY_SAVE_EVERY=200ms")
		c.Must(t, "create", "--name", "box", "shell", c.Work)
		for round, victim := range []string{theKeeper, theSentry, theGofer} {
			mark := fmt.Sprint("mark-", round)
			if r := c.Sh("box", "root", "mkdir -p /opt/d && echo "+mark+" > /opt/d/kept && rm -f /usr/bin/cal /etc/issue && chown 5:7 /opt/d/kept"); r.Code != 0 {
				t.Fatalf("%v", r)
			}
			written := time.Now()
			var at time.Time
			harness.WaitFor(t, harness.Timeout, "a background save", func() bool {
				l := c.Inspect(t, "box").Status.Root
				if l.SaveError != "" {
					t.Errorf("saving failed: %s", l.SaveError)
				}
				if l.SavedAt != nil {
					at = *l.SavedAt
				}
				return at.After(written.Add(200 * time.Millisecond)) // started after the write
			})
			bound := time.Duration(c.Inspect(t, "box").Status.Root.Bound)
			if took := at.Sub(written); took > bound+harness.Moment {
				t.Errorf("the save came after %v, the bound is %v", took, bound)
			}
			pid := find(c, victim, nil)
			c.Run("exec", "-u", "root", "box", "sh", "-c", "echo late > /opt/d/late")
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			got := recovers(t, c, "exec", "-u", "root", "box", "sh", "-c", "cat /opt/d/kept; stat -c %u:%g /opt/d/kept; ls /etc/issue 2>&1; cat /opt/d/late 2>/dev/null; true")
			if !strings.HasPrefix(got.Stdout, mark+"\n5:7\n") || !strings.Contains(got.Stdout, "No such file") {
				t.Errorf("%s killed: what had been saved is not there: %v", victim, got)
			}
			if rest := got.Stdout[strings.LastIndex(got.Stdout, "directory\n")+len("directory\n"):]; rest != "" && rest != "late\n" {
				t.Errorf("half of a late write: %q", rest)
			}
			if i := c.Inspect(t, "box"); i.Status.State != spec.Running {
				t.Errorf("%+v", i.Status)
			}
		}
	})
}

// TestAtOnce runs commands that exclude each other at the same time.
func TestAtOnce(t *testing.T) {
	harness.AsUser(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		many := func(n int, args func(i int) []string) []harness.Result {
			results := make([]harness.Result, n)
			done := make(chan int)
			for i := range n {
				go func() { results[i] = c.Run(args(i)...); done <- i }()
			}
			for range n {
				<-done
			}
			return results
		}
		// Several runs of the same directory: one sandbox, all answered.
		for _, r := range many(6, func(i int) []string { return []string{"run", "shell", ".", "--", "echo", fmt.Sprint(i)} }) {
			if r.Code != 0 {
				t.Errorf("%v", r)
			}
		}
		if l := c.Must(t, "ls", "-q"); l != "shell-project\n" {
			t.Errorf("run made more than one sandbox: %q", l)
		}
		settled(t, c, 1)
		// Everything at once.
		for range 3 {
			ops := [][]string{{"exec", "shell-project", "sleep", "0.05"}, {"stop", "shell-project"}, {"exec", "shell-project", "true"}, {"ls"}, {"inspect", "shell-project"}, {"stop", "shell-project"}}
			for _, r := range many(len(ops), func(i int) []string { return ops[i] }) {
				explained(t, r)
			}
		}
		recovers(t, c, "exec", "shell-project", "true")
		settled(t, c, 1)
		// Removal wins over an exec, whose caller gets a message.
		exec := make(chan harness.Result, 1)
		go func() { exec <- c.Run("exec", "shell-project", "sleep", "1000") }()
		harness.WaitFor(t, harness.Timeout, "the exec", func() bool { return len(c.Inspect(t, "shell-project").Sessions) > 0 })
		if r := c.Run("rm", "shell-project"); r.Code != 5 {
			t.Errorf("rm of a sandbox in use: %v", r)
		}
		c.Must(t, "rm", "-f", "shell-project")
		r := <-exec
		if r.Code == 0 {
			t.Errorf("exec during rm: %v", r)
		}
		explained(t, r)
		// Creation and removal of one name by several.
		for _, r := range many(6, func(int) []string { return []string{"create", "--name", "one", "shell", c.Work} }) {
			explained(t, r)
		}
		for _, r := range many(4, func(int) []string { return []string{"rm", "-f", "one"} }) {
			explained(t, r)
		}
		if l := c.Must(t, "ls", "-q"); l != "" {
			t.Errorf("%q", l)
		}
		c.NothingLeft(t)
		c.TidyState(t)
	})
}

// TestMany creates, starts and destroys fifty sandboxes: nothing of them is left.
func TestMany(t *testing.T) {
	harness.AsUser(t)
	total := map[string]int{"root": 10, "user": 40}
	harness.EachAlone(t, func(t *testing.T, c *harness.Caller) {
		mounts, fds := readFile("/proc/self/mountinfo"), countFDs(t)
		n := total[c.Name]
		work := make(chan int)
		done := make(chan struct{})
		for range 3 {
			go func() {
				for i := range work {
					r := c.Run("run", "-d", "--name", fmt.Sprintf("box-%d", i), "shell", c.Work, "--", "sleep", "1000")
					if r.Code != 0 {
						t.Errorf("%v", r)
					}
				}
				done <- struct{}{}
			}()
		}
		for i := range n {
			work <- i
		}
		close(work)
		for range 3 {
			<-done
		}
		settled(t, c, n)
		if l := c.Must(t, "ls", "-q"); strings.Count(l, "\n") != n {
			t.Errorf("%d sandboxes are listed", strings.Count(l, "\n"))
		}
		c.Must(t, "rm", "-f", "--all")
		for i := range 5 {
			c.Must(t, "run", "--rm", "shell", c.Work, "--", "echo", fmt.Sprint(i))
		}
		settled(t, c, 0)
		c.NothingLeft(t)
		c.TidyState(t)
		if entries, _ := os.ReadDir(filepath.Join(c.State, "sandboxes")); len(entries) != 0 {
			t.Errorf("left: %v", entries)
		}
		if now := readFile("/proc/self/mountinfo"); now != mounts {
			t.Errorf("the host's mounts changed:\n%s\n%s", mounts, now)
		}
		if now := countFDs(t); now > fds+2 {
			t.Errorf("%d descriptors, there were %d", now, fds)
		}
	})
}

func countFDs(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// TestInterruptedRun sends a signal at every moment of run --rm: nothing of the sandbox is left, and the
// command ends as the signal requires.
func TestInterruptedRun(t *testing.T) {
	harness.AsUser(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		c.Must(t, "run", "--rm", "shell", c.Work, "--", "true")
		for i := range 14 {
			cmd := c.Command(t.Context(), "run", "--rm", "shell", c.Work, "--", "sleep", "100")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			after := time.Duration(15+15*i) * time.Millisecond
			time.Sleep(after)
			_ = cmd.Process.Signal(syscall.SIGTERM)
			err := cmd.Wait()
			// Before the command handles signals, the signal ends it, and the sandbox does not exist
			// yet.
			status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if !ok || status.Exited() && status.ExitStatus() != 128+int(syscall.SIGTERM) || status.Signaled() && status.Signal() != syscall.SIGTERM {
				t.Errorf("after %v: %v", after, err)
			}
			if out := c.Must(t, "ls", "-q"); out != "" {
				t.Errorf("after %v there is still %q", after, out)
			}
		}
	})
}
