package faults

import (
	"math/rand/v2"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/test/harness"
)

// rawPath matches an error of the host for a file of a sandbox's directory, without the step.
var rawPath = regexp.MustCompile(`(?m)^bothy: error: (open|lock|stat|lstat|read) /|no such file or directory$`)

// TestSameMoment runs commands for one sandbox at the same time, some of which stop or remove it. It
// checks that each works or explains the failure, and that no process is left running.
func TestSameMoment(t *testing.T) {
	harness.AsUser(t)
	commands := [][]string{
		{"exec", "box", "true"},
		{"exec", "box", "sh", "-c", "sleep 0.05"},
		{"stop", "box"},
		{"rm", "-f", "box"},
		{"inspect", "box"},
		{"checkpoint", "create", "box"},
		{"cp", "in", "box:/tmp/in"},
		{"policy", "allow", "--sandbox", "box", "example.org"},
		{"logs", "box"},
		{"cost", "box"},
		{"ls"},
		{"checkpoint", "ls", "box"},
		{"stop", "box"},
		{"save", "box", "saved"},
	}
	harness.EachAlone(t, func(t *testing.T, c *harness.Caller) {
		rng := seed(t)
		c.Write(t, c.Work+"/in", "in\n")
		for range sameMoments {
			c.Must(t, "create", "--name", "box", "shell", ".")
			if rng.IntN(2) == 0 {
				c.Must(t, "exec", "box", "true")
			}
			atOnce(t, c, rng, commands)
			if r := c.Run("rm", "-f", "box"); r.Code != 0 && r.Code != 4 {
				t.Errorf("%v", r)
			}
			settled(t, c, 0)
		}
	})
}

// sameMoments is the number of sandboxes that are tested.
const sameMoments = 6

// atOnce runs commands within a few moments of each other.
func atOnce(t *testing.T, c *harness.Caller, rng *rand.Rand, commands [][]string) {
	t.Helper()
	var wg sync.WaitGroup
	for _, args := range commands {
		pause := time.Duration(rng.IntN(150)) * time.Millisecond
		wg.Go(func() {
			time.Sleep(pause)
			r := c.Run(args...)
			explained(t, r)
			if r.Code != 0 && rawPath.MatchString(r.Stderr) {
				t.Errorf("not a clear error: %v", r)
			}
		})
	}
	wg.Wait()
}
