package attacks

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/test/harness"
)

// bomb runs a bomb inside. Each of them ends by itself.
func bomb(kind string) int {
	switch kind {
	case "fork":
		// Until it has hit the limit ten times, or made far more processes than any limit of these
		// tests. How long that takes depends on the host.
		for made, limits := 0, 0; made < 2000 && limits < 10; {
			pid, _, errno := unix.RawSyscall(unix.SYS_FORK, 0, 0, 0)
			if errno == 0 && pid == 0 {
				for {
					_, _, _ = unix.RawSyscall(unix.SYS_PAUSE, 0, 0, 0)
				}
			}
			if errno == 0 {
				made++
				continue
			}
			limits++
			fmt.Println("LIMIT", errno)
			time.Sleep(100 * time.Millisecond)
		}
	case "memory":
		var hold [][]byte
		for range 80 { // 640 MiB
			b := make([]byte, 8<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = byte(i>>12) | 1
			}
			hold = append(hold, b)
			time.Sleep(5 * time.Millisecond)
		}
		fmt.Println("GOT IT ALL", len(hold))
	case "fd":
		// Root of the inside may raise the limit, so the test has its own bound.
		for n := range 66_000 {
			if _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); err != nil {
				fmt.Println("LIMIT", n, err)
				break
			}
		}
		for range 5_000 {
			if _, err := unix.EpollCreate1(0); err != nil {
				break
			}
			if _, err := unix.Eventfd(0, 0); err != nil {
				break
			}
		}
		fmt.Println("END")
	case "thread":
		for i := range 20000 {
			go func() {
				var r [2]int
				_ = unix.Pipe(r[:])
				_, _ = unix.Read(r[0], make([]byte, 1))
			}()
			if i%100 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		time.Sleep(2 * time.Second)
	}
	return 0
}

// neighbour is a second sandbox that must keep working, and this process, which must still be able to
// start others.
type neighbour struct {
	c     *harness.Caller
	stop  chan struct{}
	done  chan struct{}
	worst time.Duration
	tries int
	bad   []string
}

// watch starts the neighbour. end reports whether it kept working.
func watch(t *testing.T, c *harness.Caller) *neighbour {
	t.Helper()
	c.Must(t, "run", "-d", "--name", "neighbour", "shell", c.Work, "--", "sleep", "1000")
	n := &neighbour{c: c, stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(n.done)
		for {
			select {
			case <-n.stop:
				return
			case <-time.After(100 * time.Millisecond):
			}
			began := time.Now()
			if r := c.Run("exec", "neighbour", "echo", "alive"); r.Code != 0 || r.Stdout != "alive\n" {
				n.bad = append(n.bad, r.String())
			}
			if err := exec.Command("/bin/true").Run(); err != nil {
				n.bad = append(n.bad, "fork on the host: "+err.Error())
			}
			n.worst, n.tries = max(n.worst, time.Since(began)), n.tries+1
		}
	}()
	return n
}

func (n *neighbour) end(t *testing.T) {
	t.Helper()
	close(n.stop)
	<-n.done
	t.Logf("the neighbour answered %d times, at worst after %v", n.tries, n.worst.Round(time.Millisecond))
	if n.tries == 0 {
		t.Error("the neighbour was never asked")
	}
	for _, bad := range n.bad {
		t.Errorf("the neighbour or the host suffered: %s", bad)
	}
}

// aftermath checks that a bombed sandbox lives, or reports why it does not, and that it can be used
// again.
func aftermath(t *testing.T, c *harness.Caller, name string, reasons ...string) {
	t.Helper()
	clear := func(text string) bool {
		for _, r := range reasons {
			if strings.Contains(text, r) {
				return true
			}
		}
		return false
	}
	at0 := c.Run("exec", name, "echo", "again")
	if at0.Code != 0 && !clear(at0.Stderr) {
		t.Errorf("at once, the next command neither works nor says what is wrong: %v", at0)
	}
	time.Sleep(time.Second)
	i := c.Inspect(t, name)
	events := c.Must(t, "logs", "--source", "events", name)
	t.Logf("state %s, reason %q, crashed %v", i.Status.State, i.Status.Reason, i.Status.Crashed)
	if i.Status.State != "running" && !clear(i.Status.Reason) {
		t.Errorf("it ended without a clear reason: %q\n%s", i.Status.Reason, events)
	}
	if r := c.Run("exec", name, "echo", "again"); r.Code != 0 || r.Stdout != "again\n" {
		t.Errorf("it cannot be used afterwards: %v", r)
	}
}

func TestForkBomb(t *testing.T) {
	for _, as := range []string{"", "root"} {
		t.Run("as "+map[string]string{"": "user", "root": "root inside"}[as], func(t *testing.T) {
			harness.Each(t, func(t *testing.T, c *harness.Caller) {
				n := watch(t, c)
				me := c.Plant(t, c.Work)
				c.Must(t, "create", "--name", "box", "--pids", "100", "shell", c.Work)
				args := []string{"exec", "box", me, "intruder", "bomb", "fork"}
				if as != "" {
					args = append([]string{"exec", "-u", as}, args[1:]...)
				}
				done := make(chan harness.Result, 1)
				go func() { done <- c.Run(args...) }()
				most := 0
				for {
					select {
					case r := <-done:
						t.Logf("%s; at most %d processes on the host", clip(r.Stdout, 200), most)
						if !strings.Contains(r.Stdout, "LIMIT") {
							t.Errorf("the bomb met no limit: %v", r)
						}
						n.end(t)
						aftermath(t, c, "box", "processes")
						c.Must(t, "stop", "box")
						return
					case <-time.After(200 * time.Millisecond):
						most = max(most, len(c.Running()))
						if most > 1500 {
							t.Errorf("%d processes on the host", most)
						}
					}
				}
			})
		})
	}
}

func clip(s string, n int) string { return s[:min(len(s), n)] }

func TestThreadBomb(t *testing.T) {
	harness.AsUser(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		n := watch(t, c)
		me := c.Plant(t, c.Work)
		c.Must(t, "create", "--name", "box", "--pids", "200", "shell", c.Work)
		r := c.Run("exec", "box", me, "intruder", "bomb", "thread")
		t.Logf("code %d", r.Code)
		if r.TimedOut {
			t.Errorf("%v", r)
		}
		n.end(t)
		aftermath(t, c, "box", "processes")
	})
}

// limited makes a sandbox with little memory. If the host does not enforce such a limit, bothy must
// report that.
func limited(t *testing.T, c *harness.Caller) {
	t.Helper()
	r := c.Run("create", "--name", "box", "--memory", "256m", "shell", c.Work)
	if r.Code == 0 {
		c.Must(t, "exec", "box", "true")
		return
	}
	if strings.Contains(r.Stderr, "memory") && strings.Contains(r.Stderr, "bothy: hint:") {
		t.Skipf("this host lets %s set no memory limit, and bothy says so: %s", c.Name, r.Stderr)
	}
	t.Fatalf("%v", r)
}

func TestMemoryBomb(t *testing.T) {
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		me := c.Plant(t, c.Work)
		limited(t, c)
		n := watch(t, c)
		r := c.Run("exec", "box", me, "intruder", "bomb", "memory")
		if strings.Contains(r.Stdout, "GOT IT ALL") || r.Code == 0 || r.TimedOut {
			t.Errorf("640 MiB fit into 256: %v", r)
		}
		n.end(t)
		events := c.Must(t, "logs", "--source", "events", "box")
		if !strings.Contains(events, "memory.killed") && !strings.Contains(c.Inspect(t, "box").Status.Reason, "memory") {
			t.Errorf("nothing says that memory was short:\n%s%+v", events, c.Inspect(t, "box").Status)
		}
		aftermath(t, c, "box", "memory")
	})
}

// TestTmpBomb fills memory through files: /tmp and /dev/shm are the
// sandbox's memory.
func TestTmpBomb(t *testing.T) {
	harness.AsUser(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		limited(t, c)
		n := watch(t, c)
		for _, dir := range []string{"/tmp", "/dev/shm"} {
			r := c.Sh("box", "", "dd if=/dev/zero of="+dir+"/fill bs=1M count=600 2>&1; rm -f "+dir+"/fill")
			t.Logf("%s: %v", dir, r)
			if strings.Contains(r.Stdout, "600+0 records out") || r.TimedOut {
				t.Errorf("%s holds more than the memory limit: %v", dir, r)
			}
			if !strings.Contains(r.Stdout, "No space left") {
				t.Errorf("%s is filled to no limit of its own: %v", dir, r)
			}
			aftermath(t, c, "box", "memory")
		}
		n.end(t)
	})
}

// TestDiskBomb fills the root layer. Workspace and home are the caller's own disk and have no quota: the
// docs say so.
func TestDiskBomb(t *testing.T) {
	harness.AsUser(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		n := watch(t, c)
		c.Must(t, "create", "--name", "box", "--disk", "64m", "shell", c.Work)
		r := c.Sh("box", "root", "dd if=/dev/urandom of=/opt/fill bs=1M count=200 2>&1; echo code $?; i=0; while [ $i -lt 3000 ]; do : > /var/f$i || break; i=$((i+1)); done; echo $i; rm -f /opt/fill; echo small > /opt/small; cat /opt/small")
		if !strings.Contains(r.Stdout, "No space left") || !strings.HasSuffix(r.Stdout, "small\n") {
			t.Errorf("no ENOSPC inside, or no recovery: %v", r)
		}
		var used int64
		dir := c.Inspect(t, "box").Directory
		_ = filepath.WalkDir(dir, func(path string, _ os.DirEntry, _ error) error {
			var st syscall.Stat_t
			if syscall.Lstat(path, &st) == nil {
				used += st.Blocks * 512
			}
			return nil
		})
		if used > 200<<20 {
			t.Errorf("the sandbox's directory takes %d MiB of the host's disk", used>>20)
		}
		n.end(t)
		aftermath(t, c, "box", "disk")
	})
}

func TestDescriptorBomb(t *testing.T) {
	harness.AsUser(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		n := watch(t, c)
		me := c.Plant(t, c.Work)
		c.Must(t, "create", "--name", "box", "shell", c.Work)
		r := c.Run("exec", "box", "/bin/sh", "-c", "for i in 1 2; do "+me+" intruder bomb fd & done; wait")
		if strings.Count(r.Stdout, "LIMIT") != 2 || r.TimedOut {
			t.Errorf("the bomb met no limit: %v", r)
		}
		r = c.Run("exec", "-u", "root", "box", "/bin/sh", "-c", "ulimit -n 1048576; "+me+" intruder bomb fd")
		if !strings.Contains(r.Stdout, "END") || r.TimedOut {
			t.Errorf("%v", r)
		}
		n.end(t)
		aftermath(t, c, "box", "descriptors", "memory")
		b, _ := os.ReadFile("/proc/sys/fs/file-nr")
		f := strings.Fields(string(b))
		if used, _ := strconv.Atoi(f[0]); used > 500000 {
			t.Errorf("%d files are open on the host", used)
		}
	})
}

// TestOutputFlood writes 200 MB to a reader that reads slowly, and to the log of a session that no
// terminal is attached to.
func TestOutputFlood(t *testing.T) {
	harness.AsUser(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		n := watch(t, c)
		c.Must(t, "create", "--name", "box", "shell", c.Work)
		ctx, cancel := context.WithTimeout(t.Context(), harness.Timeout)
		defer cancel()
		flood := "head -c 200000000 /dev/zero"
		cmd := c.Command(ctx, "exec", "box", "/bin/sh", "-c", flood)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 1<<20)
		for range 20 { // slow at first
			if _, err := io.ReadFull(out, buf); err != nil {
				t.Fatal(err)
			}
			time.Sleep(50 * time.Millisecond)
		}
		keeper := c.Machine(t, "box").Keeper
		if kb, _ := strconv.Atoi(strings.TrimSuffix(harness.Status(keeper, "VmRSS"), " kB")); kb > 200<<10 {
			t.Errorf("the keeper takes %d MiB for a slow reader", kb>>10)
		}
		rest, err := io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		if err != nil || rest+20<<20 != 200000000 {
			t.Errorf("%d bytes arrived: %v", rest+20<<20, err)
		}

		c.Must(t, "exec", "-d", "box", "/bin/sh", "-c", "head -c 50000000 /dev/zero | tr '\\0' x; echo; echo the end; touch done")
		harness.WaitFor(t, harness.Timeout, "the background flood", func() bool {
			_, err := os.Lstat(filepath.Join(c.Work, "done"))
			return err == nil
		})
		var logs int64
		_ = filepath.WalkDir(filepath.Join(c.Inspect(t, "box").Directory, "log"), func(_ string, d os.DirEntry, _ error) error {
			if info, err := d.Info(); err == nil && !d.IsDir() {
				logs += info.Size()
			}
			return nil
		})
		if logs > 32<<20 {
			t.Errorf("the logs take %d MiB", logs>>20)
		}
		harness.WaitFor(t, harness.Timeout, "the end of the output in the log", func() bool {
			return strings.Contains(c.Must(t, "logs", "box"), "the end")
		})
		n.end(t)
		aftermath(t, c, "box")
	})
}
