package faults

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/test/harness"
)

// TestStopOfWhatHangs stops (SIGSTOP) each process of a sandbox in turn: stop and rm return, nothing is
// left, and the sandbox starts again.
func TestStopOfWhatHangs(t *testing.T) {
	harness.AsUser(t)
	for _, victim := range []string{theKeeper, theSentry, theGofer} {
		for _, op := range [][]string{{"stop"}, {"rm", "-f"}} {
			t.Run(op[0]+" with a hanging "+victim, func(t *testing.T) {
				t.Parallel()
				for _, name := range harness.Callers() {
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						c := harness.New(t, name)
						c.Must(t, "run", "-d", "--name", "box", "shell", c.Work, "--", "sleep", "1000")
						c.Must(t, "exec", "box", "sh", "-c", "echo kept > ~/kept; echo kept > kept")
						home := homeOf(t, c, "box")
						pid := find(c, victim, nil)
						if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
							t.Fatal(err)
						}
						// Other commands still answer.
						if r := c.Run("ls"); r.Code != 0 {
							t.Errorf("%v", r)
						}
						r := c.Run(append(op, "box")...)
						want := 0
						if op[0] == "stop" && victim == theSentry { // it cannot save anything, and stop reports that
							want = 1
						}
						// The hanging process is killed, and cannot save: stop reports that.
						if r.Code != want || strings.Contains(r.Stderr, "is lost") != (op[0] == "stop" && victim != theGofer) {
							t.Errorf("it took %v: %v", r.Took, r)
						}
						t.Logf("%v took %v", op, r.Took.Round(time.Millisecond))
						settled(t, c, 0)
						c.NothingLeft(t)
						if got := readFile(filepath.Join(c.Work, "kept")); got != "kept\n" {
							t.Errorf("the workspace file: %q", got)
						}
						if op[0] == "stop" {
							if got := readFile(filepath.Join(home, "kept")); got != "kept\n" {
								t.Errorf("the file at home: %q", got)
							}
							recovers(t, c, "exec", "box", "true")
						} else if _, err := os.Lstat(home); err == nil {
							t.Error("the sandbox is still there")
						}
					})
				}
			})
		}
	}
}

// TestCommandsWhileHanging asks a sandbox whose sentry is stopped: answers arrive in bounded time.
func TestCommandsWhileHanging(t *testing.T) {
	harness.AsUser(t)
	t.Parallel()
	for _, name := range harness.Callers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := harness.New(t, name)
			c.Must(t, "run", "-d", "--name", "box", "shell", c.Work, "--", "sleep", "1000")
			pid := find(c, theSentry, nil)
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{{"ls"}, {"inspect", "box"}, {"logs", "box"}, {"exec", "box", "true"}, {"cp", "box:/etc/passwd", "-"}} {
				r := c.Run(args...)
				explained(t, r)
			}
			if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			recovers(t, c, "exec", "box", "true")
		})
	}
}
