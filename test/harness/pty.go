package harness

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Pty is a pseudo terminal, which is closed with the test.
type Pty struct {
	Emulator *os.File
	Line     *os.File // the programs' end

	fd int // of the emulator, which stays non-blocking
}

// OpenPty opens a Pty. Without pseudo terminals the test is skipped, or fails if nothing may be missing.
func OpenPty(t *testing.T) Pty {
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
	return Pty{Emulator: emulator, Line: line, fd: fd}
}

// Resize sets its size.
func (p Pty) Resize(t *testing.T, rows, cols uint16) {
	t.Helper()
	if err := unix.IoctlSetWinsize(p.fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols}); err != nil {
		t.Fatal(err)
	}
}
