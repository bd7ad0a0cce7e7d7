package harness

import (
	"bytes"
	"os/exec"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Terminal is an emulator without a person: it answers no query of a program, and keeps its whole
// output.
type Terminal struct {
	Pty

	mu      sync.Mutex
	written []byte
}

// OpenTerminal opens a Terminal of a size.
func OpenTerminal(t *testing.T, rows, cols uint16) *Terminal {
	t.Helper()
	p := OpenPty(t)
	p.Resize(t, rows, cols)
	tm := &Terminal{Pty: p}
	go tm.read()
	return tm
}

// Start runs a program on it, which is killed at the end of the test.
func (tm *Terminal) Start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tm.Line, tm.Line, tm.Line
	cmd.Env = append(cmd.Env, "TERM=xterm-256color")
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty, cmd.SysProcAttr.Setpgid = true, true, false
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

func (tm *Terminal) read() {
	buf := make([]byte, 64<<10)
	for {
		n, err := tm.Emulator.Read(buf)
		tm.mu.Lock()
		tm.written = append(tm.written, buf[:n]...)
		tm.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Shows waits until a text was shown in one piece, whatever its colours.
func (tm *Terminal) Shows(t *testing.T, patience time.Duration, text string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !bytes.Contains(plain(tm.all()), []byte(text)) {
		if time.Now().After(deadline) {
			t.Fatalf("%q is not shown; what was written is\n%q", text, tm.all())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (tm *Terminal) all() []byte {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	return bytes.Clone(tm.written)
}

// plain returns the output without its colours. A cursor movement to the right becomes a blank, since
// some programs write blanks that way.
func plain(written []byte) []byte {
	colours, right := regexp.MustCompile(`\x1b\[[0-9;:]*m`), regexp.MustCompile(`\x1b\[1?C`)
	return right.ReplaceAll(colours.ReplaceAll(written, nil), []byte(" "))
}
