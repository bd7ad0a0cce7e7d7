package harness

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Terminal is an emulator that nobody sits at: it answers no question of a program, and
// keeps all that one writes.
type Terminal struct {
	emulator *os.File
	line     *os.File

	mu      sync.Mutex
	written []byte
}

// OpenTerminal makes one of a size.
func OpenTerminal(t *testing.T, rows, cols uint16) *Terminal {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		Missing(t, "no pseudo terminals here: %v", err)
	}
	emulator := os.NewFile(uintptr(fd), "emulator")
	t.Cleanup(func() { _ = emulator.Close() })
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	line, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = line.Close() })
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols}); err != nil {
		t.Fatal(err)
	}
	tm := &Terminal{emulator: emulator, line: line}
	go tm.read()
	return tm
}

// Start runs a program on it, which is ended with the test.
func (tm *Terminal) Start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tm.line, tm.line, tm.line
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
		n, err := tm.emulator.Read(buf)
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

// plain is what is written without its colours; a cursor that moves to the right is a blank,
// as some programs write one.
func plain(written []byte) []byte {
	colours, right := regexp.MustCompile(`\x1b\[[0-9;:]*m`), regexp.MustCompile(`\x1b\[1?C`)
	return right.ReplaceAll(colours.ReplaceAll(written, nil), []byte(" "))
}
