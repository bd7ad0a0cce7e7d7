package gvisor

import (
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// TestExitedWell lets children end in different ways. Each can be collected afterwards.
func TestExitedWell(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		want   bool
	}{
		"exits with 0": {"exit 0", true},
		"exits with 2": {"exit 2", false}, // as a Go program that panics
		"is killed":    {"kill -9 $$", false},
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
			if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1); err != nil {
				t.Fatal(err)
			}
			if got := exitedWell(cmd.Process.Pid); got != c.want {
				t.Errorf("exitedWell: %v, want %v", got, c.want)
			}
			_ = cmd.Wait()
			if cmd.ProcessState == nil {
				t.Error("the child was collected before")
			}
			if exitedWell(cmd.Process.Pid) {
				t.Error("a collected child counts")
			}
		})
	}
}
