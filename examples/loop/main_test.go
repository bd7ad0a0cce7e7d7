package main

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A child that leaves the group and keeps the pipe is not waited for: whether the time
// is over, or the command has ended by itself.
func TestOnHostLeft(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip(err)
	}
	for what, x := range map[string]struct {
		then string
		code int
	}{
		"its time is over": {"sleep 54321", 124},
		"it ends":          {"exit 0", 0},
		"it fails":         {"exit 3", 3},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			l := &loop{dir: t.TempDir(), timeout: 3 * time.Second}
			code, output, err := l.onHost(t.Context(), []string{"sh", "-c", `setsid sh -c 'echo $$ > pid; exec sleep 54322' & until [ -s pid ]; do sleep 0.01; done; cat pid; ` + x.then})
			pid, perr := strconv.Atoi(strings.TrimSpace(output))
			if code != x.code || err != nil || perr != nil {
				t.Fatalf("%d, %q, %v", code, output, err)
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Errorf("what has left the group: %v", err)
			}
		})
	}
}
