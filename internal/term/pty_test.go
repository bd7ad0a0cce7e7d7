package term

import (
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openPTY makes a real terminal: what a terminal emulator holds, and what a
// program sees.
func openPTY(t *testing.T) (emulator, terminal *os.File) {
	t.Helper()
	emulator, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	t.Cleanup(func() { emulator.Close() })
	fd := int(emulator.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return emulator, terminal
}

// settings reads the settings of a terminal.
func settings(t *testing.T, f *os.File) unix.Termios {
	t.Helper()
	s, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *s
}

// makeUnusual gives the terminal settings that no default would bring back.
func makeUnusual(t *testing.T, f *os.File) unix.Termios {
	t.Helper()
	s := settings(t, f)
	s.Lflag &^= unix.ECHOK
	s.Iflag |= unix.IXANY
	s.Cc[unix.VMIN], s.Cc[unix.VTIME], s.Cc[unix.VINTR] = 3, 7, 0x1d
	if err := unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, &s); err != nil {
		t.Fatal(err)
	}
	return settings(t, f)
}

// shown reads what has arrived at the emulator so far.
func shown(t *testing.T, emulator *os.File) string {
	t.Helper()
	var all []byte
	buf := make([]byte, 4096)
	for {
		ready := []unix.PollFd{{Fd: int32(emulator.Fd()), Events: unix.POLLIN}}
		n, err := unix.Poll(ready, int((50 * time.Millisecond).Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		if n == 0 || err != nil || ready[0].Revents&unix.POLLIN == 0 {
			return string(all)
		}
		n, err = unix.Read(int(emulator.Fd()), buf)
		if err != nil {
			return string(all)
		}
		all = append(all, buf[:n]...)
	}
}
