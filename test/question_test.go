package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bothy-dev/bothy/test/harness"
)

// TestQuestionInterrupted checks that Ctrl-C and SIGTERM end a question at once, also in a command
// that handles signals itself, and that the command has made nothing by then.
func TestQuestionInterrupted(t *testing.T) {
	harness.AsUser(t)
	l := newLodging(t)
	repo := filepath.Join(filepath.Dir(l.proj), "repo")
	if err := os.Remove(l.proj); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"init -q " + repo, "-C " + repo + " -c user.name=me -c user.email=me@example.org commit -q --allow-empty -m first", "-C " + repo + " worktree add -q " + l.proj} {
		if out, err := exec.Command("git", strings.Fields(line)...).CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", line, err, out)
		}
	}
	for _, command := range []string{"run", "create"} {
		for sig, interrupt := range map[syscall.Signal]func(*terminal){
			syscall.SIGINT:  func(tm *terminal) { tm.press("\x03") },
			syscall.SIGTERM: func(tm *terminal) { _ = tm.cmd.Process.Signal(syscall.SIGTERM) },
		} {
			tm := l.terminal(command, "shell", ".")
			tm.expect(`Share it\? \[y/N\]`)
			interrupt(tm)
			tm.code()
			if got := tm.cmd.ProcessState.Sys().(syscall.WaitStatus); !got.Signaled() || got.Signal() != sig {
				t.Errorf("bothy %s ends with %v, not by %v", command, tm.cmd.ProcessState, sig)
			}
		}
	}
	if got := l.bothy("ls", "-q"); got != "" {
		t.Errorf("there are sandboxes: %s", got)
	}
	tm := l.terminal("run", "shell", ".", "--", "git", "status")
	tm.expect(`\[y/N\]`)
	tm.press("y\r")
	tm.expect(`nothing to commit`)
	tm.code()
	l.bothy("rm", "-f", "shell-proj")
}
