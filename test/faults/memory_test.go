package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/test/harness"
)

// TestKillWhileMemoryMoves kills every process in the middle of making a full checkpoint, of restoring
// one, of work while the memory is still loading, and of forking a running sandbox. Programs that were
// saved before resume from there, and no unwanted image stays.
func TestKillWhileMemoryMoves(t *testing.T) {
	harness.AsUser(t)
	harness.Each(t, func(t *testing.T, c *harness.Caller) {
		rng := seed(t)
		c.Must(t, "create", "--workspace", "review", "--name", "box", "shell", c.Work)
		c.Must(t, "exec", "-d", "box", "sh", "-c", "head -c 33554432 /dev/urandom > /tmp/held; cksum < /tmp/held > ~/sum; n=$$$(date +%N); echo $n > ~/secret; while :; do echo $n > ~/.now; mv ~/.now ~/now; sleep 0.02; done")
		secret := ""
		harness.WaitFor(t, harness.Timeout, "the program", func() bool {
			secret = c.Run("exec", "box", "sh", "-c", "cat ~/secret ~/now").Stdout
			return strings.Count(secret, "\n") == 2
		})
		c.Must(t, "checkpoint", "create", "--full", "box", "good")
		restore := []string{"checkpoint", "restore", "-f", "--discard", "box", "good"}
		ops := []struct {
			before, args []string
			length       time.Duration
		}{
			{nil, []string{"checkpoint", "create", "--full", "box"}, 120 * time.Millisecond},
			{nil, restore, 200 * time.Millisecond},
			{restore, []string{"exec", "box", "sh", "-c", "cksum < /tmp/held || true"}, 100 * time.Millisecond},
			{restore, []string{"checkpoint", "create", "--full", "box"}, 150 * time.Millisecond},
			{nil, []string{"fork", "-n", "2", "box"}, 300 * time.Millisecond},
		}
		for _, op := range ops {
			for _, victim := range victims {
				delay := time.Duration(rng.Int64N(int64(op.length)))
				what := fmt.Sprintf("%q, %s killed after %v", op.args, victim, delay)
				if op.before != nil {
					recovers(t, c, op.before...)
				}
				r, _ := strike(t, c, victim, after(delay), op.args...)
				if victim != theCommand {
					explained(t, r)
				}
				for name := range strings.FieldsSeq(recovers(t, c, "ls", "-q").Stdout) {
					if name != "box" {
						recovers(t, c, "rm", "-f", name)
					}
				}
				recovers(t, c, restore...)
				// The program writes the value from its memory again.
				got := recovers(t, c, "exec", "box", "sh", "-c", "rm ~/now; until [ -e ~/now ]; do sleep 0.01; done; cksum < /tmp/held | cmp - ~/sum; cat ~/secret ~/now")
				if got.Stdout != secret {
					t.Fatalf("%s: it was %q, and is %v", what, secret, got)
				}
				settled(t, c, 1)
				noImages(t, c, what)
			}
		}
		putAway(t, c)
	})
}

// noImages checks that only full checkpoints have memory images.
func noImages(t *testing.T, c *harness.Caller, what string) {
	t.Helper()
	list := recovers(t, c, "checkpoint", "ls", "box").Stdout
	images, err := filepath.Glob(filepath.Join(c.State, "sandboxes/*/checkpoints/*/memory/*.img"))
	if err != nil {
		t.Fatal(err)
	}
	hidden, err := filepath.Glob(filepath.Join(c.State, "sandboxes/*/checkpoints/.*"))
	if err != nil {
		t.Fatal(err)
	}
	dirs := map[string]bool{}
	for _, i := range images {
		dirs[filepath.Dir(i)] = true
	}
	if n := strings.Count(list, " full "); n != len(dirs) {
		t.Fatalf("%s: %d images of memory for %d full checkpoints: %q\n%s", what, len(dirs), n, images, list)
	}
	for _, h := range hidden {
		if info, err := os.Stat(h); err == nil && info.IsDir() {
			t.Fatalf("%s: %s is left", what, h)
		}
	}
}
