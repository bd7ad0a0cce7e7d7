package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/test/harness"
)

// onceVar sets how many commands each worker of TestAtMostOnce runs.
const onceVar = "BOTHY_ONCE_ROUNDS"

// TestAtMostOnce has workers run commands that append a unique line, while the sandbox is stopped, or
// processes of it are killed, again and again. A command that succeeded has run once; any other at most
// once, with an error that a person understands.
func TestAtMostOnce(t *testing.T) {
	harness.AsUser(t)
	const workers = 6
	rounds := 5
	if s := os.Getenv(onceVar); s != "" {
		var err error
		if rounds, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	exec := []string{"exec", "box", "sh", "-c"}
	detached := []string{"exec", "-d", "box", "sh", "-c"}
	stop := func(c *harness.Caller) { c.Run("stop", "box") }
	kill := func(victim string) func(*harness.Caller) {
		return func(c *harness.Caller) {
			if pid := find(c, victim, nil); pid != 0 {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
	for _, at := range []struct {
		name    string
		command []string
		disturb func(*harness.Caller)
		pause   time.Duration
	}{
		{"exec and stop", exec, stop, 0},
		{"detached exec and stop", detached, stop, 0},
		{"exec and killed keepers", exec, kill(theKeeper), 150 * time.Millisecond},
		{"exec and killed sentries", exec, kill(theSentry), 150 * time.Millisecond},
	} {
		t.Run(at.name, func(t *testing.T) {
			harness.EachAlone(t, func(t *testing.T, c *harness.Caller) {
				c.Must(t, "create", "--name", "box", "shell", c.Work)
				c.Must(t, "exec", "box", "sh", "-c", ": > ~/ran")
				ran := filepath.Join(homeOf(t, c, "box"), "ran")
				over := make(chan struct{})
				var disturbing, working sync.WaitGroup
				disturbing.Go(func() {
					for {
						select {
						case <-over:
							return
						case <-time.After(at.pause):
							at.disturb(c)
						}
					}
				})
				results := make([][]harness.Result, workers)
				for w := range workers {
					working.Go(func() {
						for n := range rounds {
							line := fmt.Sprintf("echo %d.%d >> ~/ran", w, n)
							results[w] = append(results[w], c.Run(append(at.command, line)...))
						}
					})
				}
				working.Wait()
				close(over)
				disturbing.Wait()
				c.Run("stop", "box")
				count := map[string]int{}
				for line := range strings.Lines(readFile(ran)) {
					count[strings.TrimSpace(line)]++
				}
				codes := map[int]int{}
				for w := range workers {
					for n, r := range results[w] {
						times := count[fmt.Sprintf("%d.%d", w, n)]
						codes[r.Code]++
						switch {
						case times > 1:
							t.Errorf("it has run %d times: %v", times, r)
						case times == 0 && r.Code == 0 && at.command[1] != "-d": // which was told only that it started
							t.Errorf("it has not run: %v", r)
						case r.Code != 0:
							understood(t, r)
						}
					}
				}
				t.Logf("exit codes: %v", codes)
			})
		})
	}
}

// understood fails for errors with the text of a library, or without a hint.
func understood(t *testing.T, r harness.Result) {
	t.Helper()
	for _, raw := range []string{"EOF", "context canceled", "context deadline", "broken pipe", "connection re", "open /", "bad file descriptor"} {
		if strings.Contains(r.Stderr, raw) {
			t.Errorf("%q is no message for a person: %v", raw, r)
		}
	}
	if strings.Contains(r.Stderr, "bothy: error:") && !strings.Contains(r.Stderr, "hint:") {
		t.Errorf("no hint: %v", r)
	}
}
