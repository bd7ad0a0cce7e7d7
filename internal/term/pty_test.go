package term

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openPTY makes a real terminal: the emulator's end and the program's end.
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

// makeUnusual gives the terminal settings that no default would restore.
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

// fence is written after all other output: the kernel delivers a program's output late, but in order.
const fence = "(that was all)"

// shown reads the output to the terminal so far.
func shown(t *testing.T, emulator *os.File) string {
	t.Helper()
	n, err := unix.IoctlGetInt(int(emulator.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err := unix.Open(fmt.Sprintf("/dev/pts/%d", n), unix.O_WRONLY|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(terminal)
	all, rest := "", fence
	buf := make([]byte, 4096)
	for !strings.Contains(all, fence) {
		if n, err := unix.Write(terminal, []byte(rest)); err == nil { // else it is full
			rest = rest[n:]
		}
		ready := []unix.PollFd{{Fd: int32(emulator.Fd()), Events: unix.POLLIN}}
		n, err := unix.Poll(ready, int(time.Minute.Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		if n == 0 || err != nil {
			t.Fatalf("what is written does not arrive: %q, %v", all, err)
		}
		if n, err = unix.Read(int(emulator.Fd()), buf); err != nil {
			t.Fatal(err)
		}
		all += string(buf[:n])
	}
	return strings.Replace(all, fence, "", 1)
}
