package test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// If a command never ends, or its child holds its output open, the whole run would end at go test's own
// deadline, and all results would be lost. So each home has a time limit for everything that was started
// with it.

// guard kills all processes that still run with this home when its time is over, and makes that a
// failure. It sends SIGQUIT first, so that they print their stacks.
func (h *home) guard(t *testing.T, limit time.Duration) (release func()) {
	done := make(chan struct{})
	dog := time.AfterFunc(limit, func() {
		defer close(done)
		for _, sig := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGKILL} {
			for _, pid := range h.users() {
				t.Errorf("not ended after %v, %v sent: %s", limit, sig, describe(pid))
				_ = syscall.Kill(pid, sig)
			}
			time.Sleep(5 * time.Second)
		}
	})
	return func() {
		if !dog.Stop() {
			<-done
		}
	}
}

// users returns the processes that were started with this home as their state directory, and those of
// its sandboxes.
func (h *home) users() []int {
	return others(func(proc string) bool {
		env, _ := os.ReadFile(filepath.Join(proc, "environ"))
		return h.mentioned(proc) || bytes.Contains(append([]byte{0}, env...), []byte("\x00BOTHY_HOME="+h.dir+"\x00"))
	})
}

// describe returns a process's command line, the kernel function it waits in, and its open files.
func describe(pid int) string {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	wait, _ := os.ReadFile(fmt.Sprintf("/proc/%d/wchan", pid))
	said := fmt.Sprintf("process %d in %s: %.300q", pid, wait, bytes.ReplaceAll(line, []byte{0}, []byte{' '}))
	fds, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	for _, fd := range fds {
		to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name()))
		said += fmt.Sprintf("\n\t%s -> %s", fd.Name(), to)
	}
	return said
}
