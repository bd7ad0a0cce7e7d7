package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestOnHostLeft checks that onHost does not wait for a child that leaves the group and keeps the pipe,
// whether the command timed out or has ended by itself.
func TestOnHostLeft(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip(err)
	}
	for what, x := range map[string]struct {
		then    string
		timeout time.Duration
		code    int
	}{
		"its time is over": {"sleep 54321", 10 * time.Second, 124}, // which it has to begin in
		"it ends":          {"exit 0", 30 * time.Second, 0},
		"it fails":         {"exit 3", 30 * time.Second, 3},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			l := &loop{dir: t.TempDir(), timeout: x.timeout}
			code, output, err := l.onHost(t.Context(), []string{"sh", "-c", `setsid sh -c 'echo $$ > pid; exec sleep 54322' & until [ -s pid ]; do sleep 0.01; done; cat pid; ` + x.then})
			if code != x.code || err != nil {
				t.Errorf("%d, %q, %v", code, output, err)
			}
			// Read the file, because a failed command may have printed nothing.
			said, err := os.ReadFile(filepath.Join(l.dir, "pid"))
			if err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(string(said)))
			if err != nil || strings.TrimSpace(output) != strconv.Itoa(pid) {
				t.Errorf("it said %q, and has left %q: %v", output, said, err)
			}
			if pid > 1 {
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Errorf("what has left the group: %v", err)
				}
			}
		})
	}
}
