package faults

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/test/harness"
)

// small gives the caller a state directory on a tmpfs that only a separate mount namespace has. That is
// in a separate user namespace unless root tests. It returns the path under which this process sees it.
func small(t *testing.T, c *harness.Caller, options string) (outside string, wrap func(args ...string) harness.Result) {
	t.Helper()
	tool := c.Plant(t, c.Base)
	c.Mkdir(t, c.State)
	uid, gid := strconv.Itoa(c.UID), strconv.Itoa(c.GID)
	holder := exec.Command(tool, "fault-helper", "hold", c.State, options, uid, gid)
	enter := []string{"nsenter", "--mount", "--setuid", uid, "--setgid", gid}
	if os.Geteuid() == 0 {
		holder.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	} else {
		holder.SysProcAttr = c.Namespaced()
		holder.SysProcAttr.Cloneflags |= syscall.CLONE_NEWNS
		enter = []string{"nsenter", "--mount", "--user", "--preserve-credentials"}
	}
	stdin, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	holder.Stderr = os.Stderr
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	outside = fmt.Sprintf("/proc/%d/root%s", holder.Process.Pid, c.State)
	c.Dirty = true // the harness does not see this state
	t.Cleanup(func() {
		for pid := range c.Keepers() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		stdin.Close()
		_ = holder.Wait()
	})
	harness.WaitFor(t, harness.Timeout, "the small disk", func() bool {
		var st syscall.Statfs_t
		return syscall.Statfs(outside, &st) == nil && st.Type == 0x01021994
	})
	enter = append(enter, "--target", strconv.Itoa(holder.Process.Pid), "sh", "-c", `cd "$0" && exec "$@"`, c.Work, c.Binary)
	return outside, func(args ...string) harness.Result {
		ctx, cancel := context.WithTimeout(t.Context(), harness.Timeout)
		defer cancel()
		cmd := exec.CommandContext(ctx, enter[0], slices.Concat(enter[1:], args)...)
		cmd.Env, cmd.SysProcAttr = c.Environment(), &syscall.SysProcAttr{Setpgid: true}
		cmd.WaitDelay = 5 * time.Second
		return harness.Finish(ctx, cmd, args)
	}
}

// fill fills a disk to the last byte. The returned function frees the space again.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; size /= 2 {
		for {
			if _, err := f.Write(make([]byte, size)); err != nil {
				break
			}
		}
	}
	return func() { os.Remove(path) }
}

// TestFullDisk fills the disk of the state directory at every stage of a sandbox's life: commands report
// it, nothing is left half made, and no saved data is lost.
func TestFullDisk(t *testing.T) {
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		c.Env = append(c.Env, "BOTHY_SAVE_EVERY=1h") // only a stop saves
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
		must("exec", "-u", "root", "box", "sh", "-c", "echo saved > /opt/saved; echo home > /root/x")
		must("exec", "box", "sh", "-c", "echo saved > ~/saved; echo saved > saved")
		must("stop", "box")

		// Nothing can be created, and nothing is left of the attempt.
		free := fill(t, disk)
		r := bothy("create", "--name", "second", "shell", c.Work)
		if r.Code == 0 || !strings.Contains(r.Stderr, "no space left") {
			t.Errorf("create on a full disk: %v", r)
		}
		explained(t, r)
		if r := bothy("ls", "-q"); r.Stdout != "box\n" {
			t.Errorf("ls on a full disk: %v", r)
		}
		// A start may fail, and reports why.
		r = bothy("exec", "box", "true")
		t.Logf("start on a full disk: %v", r)
		explained(t, r)
		if r.Code != 0 && !strings.Contains(r.Stderr, "no space left") {
			t.Errorf("it does not say that the disk is full: %v", r)
		}
		bothy("stop", "box")
		free()
		if left, _ := filepath.Glob(filepath.Join(disk, "sandboxes/.*")); len(left) > 0 {
			r := bothy("create", "--name", "sweep", "shell", c.Work)
			if r.Code != 0 {
				t.Errorf("%v", r)
			}
			if left, _ := filepath.Glob(filepath.Join(disk, "sandboxes/.*")); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			must("rm", "-f", "sweep")
		}
		must("exec", "box", "true")

		// While the sandbox runs: inside sees ENOSPC, existing files stay readable, and stop ends and
		// reports that the layer was not saved.
		must("exec", "-u", "root", "box", "sh", "-c", "echo late > /opt/late")
		free = fill(t, disk)
		r = bothy("exec", "box", "sh", "-c", "cat ~/saved saved; dd if=/dev/zero of=$HOME/big bs=1M count=1 2>&1; echo ws > ws && cat ws")
		if !strings.HasPrefix(r.Stdout, "saved\nsaved\n") || !strings.Contains(r.Stdout, "No space left") || !strings.HasSuffix(r.Stdout, "ws\n") {
			t.Errorf("in a sandbox on a full disk: %v", r)
		}
		r = bothy("exec", "-u", "root", "box", "sh", "-c", "dd if=/dev/urandom of=/opt/big bs=1M count=4 2>&1; rm -f /opt/big; cat /opt/saved")
		t.Logf("root layer on a full disk: %v", r)
		explained(t, r)
		r = bothy("stop", "box")
		t.Logf("stop on a full disk: %v", r)
		explained(t, r)
		free()
		kept := bothy("exec", "box", "cat", "/opt/late").Stdout == "late\n"
		if told := r.Code != 0 && strings.Contains(r.Stderr, "is lost"); told == kept {
			t.Errorf("kept: %t, said to be lost: %t: %v", kept, told, r)
		}
		got := must("exec", "box", "sh", "-c", "cat /opt/saved ~/saved saved")
		if got.Stdout != "saved\nsaved\nsaved\n" {
			t.Errorf("what had been saved is lost: %v", got)
		}

		// Removal always works, even on a full disk.
		free = fill(t, disk)
		r = bothy("rm", "-f", "box")
		if r.Code != 0 {
			t.Errorf("rm on a full disk: %v", r)
		}
		free()
		if r := bothy("ls", "-q"); r.Stdout != "" {
			t.Errorf("%v", r)
		}
		if left := harness.Tree(filepath.Join(disk, "sandboxes")); len(left) > 1 {
			t.Errorf("left: %v", left)
		}
		if left := c.Keepers(); len(left) > 0 {
			t.Errorf("left behind: keepers %v", left)
		}
		if find(c, theSentry, nil) != 0 || find(c, theGofer, nil) != 0 {
			t.Error("left behind: a wall")
		}
	})
}

// TestFullNetworkLog checks that nothing happens without a record. While the network log cannot be
// written, no new connection is allowed, and Bothy reports that. When it can be written again,
// everything works as before.
func TestFullNetworkLog(t *testing.T) {
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		disk, bothy := small(t, c, "size=96m,mode=0700")
		paused := func() bool {
			return strings.Contains(bothy("inspect", "box").Stdout, `"paused": "the network is closed because its log cannot be written: `)
		}
		look := func(name string) bool { return bothy("exec", "box", "getent", "ahostsv4", name).Code == 0 }
		if r := bothy("create", "--name", "box", "--allow", "*.example.com", "shell", c.Work); r.Code != 0 {
			t.Fatalf("%v", r)
		}
		if !look("one.example.com") || look("refused.example") || paused() {
			t.Fatal("with room on the disk the network is not as it should be")
		}
		free := fill(t, disk)
		// The last page of the log may have space.
		r := bothy("exec", "box", "sh", "-c", "for i in $(seq 60); do getent hosts $i.refused.example; done; true")
		if r.Code != 0 {
			t.Fatalf("%v", r)
		}
		if !paused() {
			t.Errorf("the log cannot be written, and the network is open: %v", bothy("inspect", "box"))
		}
		if look("one.example.com") || look("two.example.com") {
			t.Error("on a full disk names are still let through")
		}
		free()
		harness.WaitFor(t, harness.Timeout, "an open network", func() bool { return !paused() })
		if !look("one.example.com") || !look("three.example.com") {
			t.Error("with room on the disk again nothing is let through")
		}
		bothy("stop", "box")
		log := bothy("logs", "--source", "network", "box").Stdout
		if !strings.Contains(log, "log.dropped bytes=") || !strings.Contains(log, "its log cannot be written") {
			t.Errorf("the log does not tell: %s", log)
		}
		if r := bothy("logs", "--source", "keeper", "box"); !strings.Contains(r.Stdout, "the network is open again") {
			t.Errorf("the keeper does not tell: %v", r)
		}
		bothy("rm", "-f", "box")
	})
}

// TestReadOnlyState removes the write permission of the state directory.
func TestReadOnlyState(t *testing.T) {
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		if c.UID == 0 {
			t.Skip("root writes all the same; a read-only mount is a full disk to it")
		}
		c.Must(t, "create", "--name", "box", "shell", c.Work)
		dir := c.Inspect(t, "box").Directory
		for _, d := range []string{dir, filepath.Join(c.State, "sandboxes"), c.State} {
			if err := os.Chmod(d, 0o500); err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{{"ls"}, {"create", "--name", "second", "shell", c.Work}, {"exec", "box", "true"}, {"stop", "box"}, {"rm", "-f", "box"}} {
				if d == dir && (args[0] == "rm" || args[0] == "create") {
					continue // these work
				}
				r := c.Run(args...)
				explained(t, r)
				if args[0] == "create" && r.Code == 0 && d != c.State {
					t.Errorf("created in a read-only directory: %v", r)
					c.Run("rm", "-f", "second")
				}
			}
			settled(t, c, 0)
			if err := os.Chmod(d, 0o700); err != nil {
				t.Fatal(err)
			}
			if r := c.Run("ls", "-q"); !strings.Contains(r.Stdout, "box") {
				c.Must(t, "create", "--name", "box", "shell", c.Work)
				dir = c.Inspect(t, "box").Directory
			}
			recovers(t, c, "exec", "box", "true")
			recovers(t, c, "stop", "box")
		}
	})
}

// TestNoHome runs without a home directory, or with a strange one.
func TestNoHome(t *testing.T) {
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		for what, env := range map[string][]string{
			"HOME is empty":             {"HOME="},
			"HOME does not exist":       {"HOME=/nonexistent/home"},
			"HOME is relative":          {"HOME=somewhere"},
			"HOME is a file":            {"HOME=" + c.Write(t, filepath.Join(c.Base, "file"), "")},
			"HOME is /":                 {"HOME=/"},
			"HOME is not ours to enter": {"HOME=/proc/1/cwd"},
		} {
			saved := c.Env
			c.Env = append(c.Env, env...)
			r := c.Run("run", "--rm", "shell", c.Work, "--", "sh", "-c", "cd && pwd")
			if r.Code != 0 {
				t.Errorf("%s, BOTHY_HOME is set: %v", what, r)
			}
			c.Env = saved
		}
		// Without any place for its state, bothy tells what to set.
		cmd := c.Command(t.Context(), "ls")
		cmd.Env = []string{"PATH=/usr/bin:/bin"}
		if _, err := user.LookupId(strconv.Itoa(c.UID)); err != nil { // an account has a home of its own
			r := harness.Finish(t.Context(), cmd, cmd.Args)
			if r.Code == 0 || !strings.Contains(r.Stderr, "BOTHY_HOME") {
				t.Errorf("%v", r)
			}
		}
	})
}

// TestTornFiles damages the documents of a sandbox: Bothy returns a clear error or recovers, other
// sandboxes continue, and the damaged one can be removed.
func TestTornFiles(t *testing.T) {
	harness.AsUser(t)
	damage := map[string]string{
		"empty": "", "truncated": `{"version":1,"id":"`, "garbage": "\x00\xff\x1b[31mgarbage", "other types": `{"version":"one","id":5,"state":{},"workspaces":3}`,
		"newer": `{"version":99}`, "foreign": `{"version":1,"id":"aaaaaaaaaaaa","name":"other"}`, "missing": "-",
	}
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		c.Must(t, "create", "--name", "good", "shell", c.Work)
		for _, file := range []string{"status.json", "spec.json"} {
			for what, content := range damage {
				for _, running := range []bool{false, true} {
					if running && what != "truncated" && what != "missing" {
						continue
					}
					tear(t, c, file, what, content, running)
				}
			}
		}
		if r := c.Run("reset", "-f"); r.Code != 0 {
			t.Errorf("reset: %v", r)
		}
		if left := c.Keepers(); len(left) != 0 {
			t.Errorf("after reset keepers run on: %v", left)
			c.KillAll()
			_ = os.RemoveAll(c.State)
		}
	})
}

// tear damages one file of a fresh sandbox.
func tear(t *testing.T, c *harness.Caller, file, what, content string, running bool) {
	t.Helper()
	where := fmt.Sprintf("%s is %s (running: %v)", file, what, running)
	c.Must(t, "create", "--name", "box", "shell", c.Work)
	i := c.Inspect(t, "box")
	if running {
		c.Must(t, "exec", "box", "true")
	}
	path := filepath.Join(i.Directory, file)
	if content == "-" {
		_ = os.Remove(path)
	} else {
		c.Write(t, path, content)
	}
	for _, args := range [][]string{{"ls"}, {"inspect", "good"}, {"stop", "good"}} {
		if r := c.Run(args...); r.Code != 0 {
			t.Errorf("%s: another sandbox suffers: %v", where, r)
		}
	}
	r := c.Run("exec", "box", "echo", "alive")
	explained(t, r)
	if file == "status.json" && what != "newer" && r.Code != 0 {
		t.Errorf("%s: not recovered: %v", where, r)
	}
	r = c.Run("rm", "-f", "box")
	explained(t, r)
	if r.Code != 0 {
		if r = c.Run("rm", "-f", i.ID); r.Code != 0 {
			explained(t, r)
			t.Errorf("%s: it cannot be removed, neither by name nor by id: %v", where, r)
		}
	}
	for pid, id := range c.Keepers() {
		if id == i.ID {
			t.Errorf("%s: its keeper runs on", where)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	if _, err := os.Lstat(i.Directory); err == nil {
		t.Errorf("%s: its directory is still there", where)
		time.Sleep(100 * time.Millisecond)
		_ = os.RemoveAll(i.Directory)
	}
}

// TestStrangeTimes puts times from another age into the state, as after a jump of the clock: the
// machine's own clock is not changed. A running sandbox uses monotonic time, which does not jump.
func TestStrangeTimes(t *testing.T) {
	harness.AsUser(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		for _, year := range []int{1970, 2096} {
			c.Must(t, "create", "--name", "box", "--idle-timeout", "10m", "shell", c.Work)
			c.Must(t, "exec", "box", "true")
			c.Must(t, "stop", "box")
			dir := c.Inspect(t, "box").Directory
			when := time.Date(year, 6, 1, 0, 0, 0, 0, time.UTC)
			for _, f := range []string{"status.json", "spec.json"} {
				path := filepath.Join(dir, f)
				text := readFile(path)
				now := time.Now().UTC().Format("2006-")
				c.Write(t, path, strings.ReplaceAll(text, `"`+now, fmt.Sprintf(`"%d-`, year)))
			}
			for _, path := range harness.Tree(c.State) {
				_ = os.Chtimes(path, when, when)
			}
			if r := c.Run("ls", "--json"); r.Code != 0 || !strings.Contains(r.Stdout, fmt.Sprint(year)) {
				t.Errorf("%v", r)
			}
			c.Must(t, "run", "-d", "--name", "box", "--", "sleep", "100")
			time.Sleep(500 * time.Millisecond)
			if i := c.Inspect(t, "box"); i.Status.State != "running" {
				t.Errorf("in %d it stopped by itself: %+v", year, i.Status)
			}
			c.Must(t, "stop", "box")
			c.Must(t, "rm", "-f", "box")
		}
	})
}

// TestDeletedState checks that no process is left that no command can find any more if a user deletes
// the state directory by hand.
func TestDeletedState(t *testing.T) {
	harness.AsUser(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		c.Must(t, "run", "-d", "--name", "box", "shell", ".", "--", "sleep", "1000")
		m := c.Machine(t, "box")
		// Running processes may write there meanwhile.
		harness.WaitFor(t, harness.Moment, "the state to be gone", func() bool { return os.RemoveAll(c.State) == nil })
		for _, pid := range []int{m.Keeper, m.Sentry, m.Gofer} {
			harness.WaitFor(t, harness.Timeout, "the sandbox to end", func() bool { return !harness.Alive(pid) })
		}
		if out := c.Must(t, "ls", "-q"); out != "" {
			t.Errorf("there is still %q", out)
		}
		// The record of its control groups is deleted with the state. They are empty.
		for _, dir := range c.Cgroups() {
			harness.WaitFor(t, harness.Timeout, "an empty cgroup", func() bool { return os.Remove(dir) == nil })
		}
	})
}
