package attacks

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/test/harness"
)

// hostile is text with everything that affects a terminal.
const hostile = "\x1b[2J\x1b]0;pwned\x07\x1b]52;c;ZXZpbA==\x07\x9b31m\u009b31m\u0090q\u009d0;x\u009c\x7f\x08\x0d\u202e\u2066\ufeff"

// octal encodes text for printf: an argument must be UTF-8.
func octal(s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, "\\%03o", s[i])
	}
	return b.String()
}

// TestOutputIsPlain lets the inside choose names and output, and checks the output of every command that
// shows them. D3, F17.
func TestOutputIsPlain(t *testing.T) {
	harness.AsUser(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		odd := filepath.Join(c.Work, "a\x1b[31m\u009b31m\u202e")
		c.Mkdir(t, odd)
		me := c.Plant(t, c.Work)
		c.Must(t, "run", "-d", "--name", "box", "-w", "/", "shell", odd, c.Work+":ro", "--", me, "intruder", "name", "\x1b]0;x\x07\u009b")
		c.Must(t, "exec", "-d", "box", "/bin/sh", "-c", "printf '"+octal(hostile)+"'; printf '"+octal(hostile)+"' >&2; sleep 100")
		c.Run("exec", "box", hostile)
		harness.WaitFor(t, harness.Timeout, "the hostile process name", func() bool {
			return strings.Contains(c.Must(t, "inspect", "box"), "u001b]0;x")
		})
		for _, args := range [][]string{
			{"ls"},
			{"ls", "--json"},
			{"inspect", "box"},
			{"inspect", "--json", "box"},
			{"top", "box"},
			{"top", "--json", "box"},
			{"top"},
			{"logs", "box"},
			{"logs", "--source", "events", "box"},
			{"logs", "--source", "events", "--json", "box"},
			{"logs", "--source", "keeper", "box"},
		} {
			if args[0] == "top" {
				args = append([]string{"top", "--once"}, args[1:]...)
			}
			r := c.Run(args...)
			if r.Code == 2 && args[0] == "top" {
				args = append([]string{"top"}, args[2:]...)
				r = c.Run(args...)
			}
			if r.Code != 0 {
				t.Errorf("%v", r)
			}
			plain(t, strings.Join(args, " "), r.Stdout+r.Stderr)
		}
		// Errors repeat the names they are about.
		for _, args := range [][]string{
			{"exec", hostile, "true"},
			{"exec", "box", hostile},
			{"exec", "-u", hostile, "box", "true"},
			{"exec", "-w", "/" + hostile, "box", "true"},
			{"run", hostile},
			{"run", "--name", hostile, "shell"},
			{"inspect", hostile},
			{"create", "shell", "/" + hostile},
			{"cp", "box:/" + hostile, "/tmp"},
			{"cp", hostile, "box:/tmp"},
			{hostile},
			{"ls", "--" + hostile},
			{"logs", "--source", hostile, "box"},
			{"create", "--memory", hostile, "shell"},
			{"ls", "--json", hostile},
			{"run", "-t", hostile, "shell"},
			{"rm", "-f", hostile},
			{"stop", hostile},
		} {
			r := c.Run(args...)
			if r.Code == 0 {
				t.Errorf("%v", r)
			}
			plain(t, "the error of "+args[0], r.Stdout+r.Stderr)
		}
	})
}

// TestMarkersAreNotTrusted creates files inside that look like Bothy's own: nothing on the host trusts
// them. D11, F18.
func TestMarkersAreNotTrusted(t *testing.T) {
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		c.Must(t, "run", "-d", "--name", "box", "shell", ".", "--", "sleep", "1000")
		before := c.Inspect(t, "box")
		r := c.Sh("box", "root", `for d in / /root /home/* /run /tmp `+c.Work+` /.bothy; do
			for f in spec.json status.json lock control.sock stop .gone-x; do
				echo '{"version":1,"state":"stopped","keeper_pid":1,"cgroup":"/sys/fs/cgroup","name":"forged","workspaces":[{"source":"/","target":"/mnt"}]}' > $d/$f
			done; done 2>/dev/null; true`)
		if r.Code != 0 {
			t.Fatalf("%v", r)
		}
		after := c.Inspect(t, "box")
		if after.Status.State != before.Status.State || after.Status.KeeperPID != before.Status.KeeperPID || len(after.Workspaces) != 1 {
			t.Errorf("the host believes a file of the inside: %+v", after)
		}
		if out := c.Must(t, "ls"); strings.Contains(out, "forged") {
			t.Errorf("ls shows a forged sandbox: %s", out)
		}
		c.Must(t, "stop", "box")
		if out := c.Must(t, "exec", "box", "echo", "alive"); out != "alive\n" {
			t.Errorf("%q", out)
		}
		if i := c.Inspect(t, "box"); i.Workspaces[0].Source != c.Work || len(i.Volumes) != 0 {
			t.Errorf("%+v", i.Sandbox)
		}
		if _, err := os.Stat(c.Work); err != nil {
			t.Error(err)
		}
	})
}

// TestNothingIsShared writes a program in one sandbox that another would run: the other does not see it.
// D16, F10.
func TestNothingIsShared(t *testing.T) {
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		for _, name := range []string{"one", "two"} {
			c.Mkdir(t, filepath.Join(c.Work, name))
			c.Must(t, "create", "--name", name, "shell", filepath.Join(c.Work, name))
		}
		mark := newMark()
		r := c.Sh("one", "root", `for d in /tmp /var/tmp /run /dev/shm /root /home/* /etc /usr/bin /usr/local/bin /opt /var/cache /.bothy/bin; do
			echo `+mark+` > $d/`+mark+`; done; echo "touch /`+mark+`" >> /etc/profile; true`)
		if r.Code != 0 {
			t.Fatalf("%v", r)
		}
		c.Must(t, "stop", "one")
		out := c.Sh("two", "root", "ls -aR /tmp /var /run /dev/shm /root /home /etc /opt /.bothy /usr/bin /usr/local 2>/dev/null; cat /etc/profile").Stdout
		if strings.Contains(out, mark) {
			t.Error("what one sandbox wrote is seen by another")
		}
		_ = filepath.WalkDir(filepath.Join(c.State, "cache"), func(path string, _ os.DirEntry, _ error) error {
			if strings.Contains(path, mark) {
				t.Errorf("it was written to the shared %s", path)
			}
			return nil
		})
	})
}
