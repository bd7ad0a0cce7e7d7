package gvisor

import (
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// TestEndOf lets children end in different ways. Each can be collected afterwards.
func TestEndOf(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		want   ending
	}{
		"exits with 0": {"exit 0", exitedWell},
		"exits with 2": {"exit 2", exitedBadly}, // as a Go program that panics
		"is killed":    {"kill -9 $$", killed},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("sh", "-c", c.script)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			fd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fd)
			if !anyReadable([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1) {
				t.Fatal("the end is not seen")
			}
			if got := endingOf(cmd.Process.Pid); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
			_ = cmd.Wait()
			if cmd.ProcessState == nil {
				t.Error("the child was collected before")
			}
			if got := endingOf(cmd.Process.Pid); got == exitedWell || got == killed {
				t.Errorf("a collected child: %v", got)
			}
		})
	}
}

func TestFirstDead(t *testing.T) {
	for name, c := range map[string]struct {
		ends [2]ending // of the sentry, of the gofer
		want int
	}{
		"the sentry is killed":                  {[2]ending{killed, exitedWell}, theSentry},
		"the sentry is killed, the gofer hangs": {[2]ending{killed, alive}, theSentry},
		"the sentry panics":                     {[2]ending{exitedBadly, exitedWell}, theSentry},
		"the sentry panics, the gofer hangs":    {[2]ending{exitedBadly, alive}, theSentry},
		"the agent's machine shuts itself down": {[2]ending{exitedWell, exitedWell}, theSentry},
		"the gofer is killed":                   {[2]ending{exitedWell, killed}, theGofer},
		"the gofer is killed, the sentry fails": {[2]ending{exitedBadly, killed}, theGofer},
		"the gofer is killed, the sentry hangs": {[2]ending{alive, killed}, theGofer},
		"the gofer panics":                      {[2]ending{exitedWell, exitedBadly}, theGofer},
		"the gofer panics, the sentry fails":    {[2]ending{exitedBadly, exitedBadly}, theGofer},
		"the gofer exits, the sentry lives":     {[2]ending{alive, exitedWell}, theGofer},
	} {
		for _, seen := range []int{theSentry, theGofer} {
			if c.ends[seen] == alive {
				continue
			}
			if got := firstDead(seen, func(i int) ending { return c.ends[i] }); got != c.want {
				t.Errorf("%s, and the end of process %d is seen first: process %d, want %d", name, seen, got, c.want)
			}
		}
	}
}
