package guest

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/wire"
)

// openTerminal makes a terminal inside the sandbox, so that its state is the
// sandbox's own and signals, job control and hang-up work as anywhere.
func openTerminal(sp wire.Spawn) (master, slave *os.File, err error) {
	m, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open a terminal: %w", err)
	}
	fail := func(err error) (*os.File, *os.File, error) {
		unix.Close(m)
		return nil, nil, fmt.Errorf("open a terminal: %w", err)
	}
	if err := unix.IoctlSetPointerInt(m, unix.TIOCSPTLCK, 0); err != nil {
		return fail(err)
	}
	n, err := unix.IoctlGetInt(m, unix.TIOCGPTN)
	if err != nil {
		return fail(err)
	}
	name := "/dev/pts/" + strconv.Itoa(n)
	s, err := unix.Open(name, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fail(err)
	}
	_ = unix.Fchown(s, sp.UID, 5) // group tty
	_ = unix.Fchmod(s, 0o620)
	// Reads from the master go through the poller, so that closing it wakes
	// them.
	if err := unix.SetNonblock(m, true); err != nil {
		unix.Close(s)
		return fail(err)
	}
	master, slave = os.NewFile(uintptr(m), "ptmx"), os.NewFile(uintptr(s), name)
	if sp.Size.Rows > 0 && sp.Size.Cols > 0 {
		_ = setSize(master, sp.Size)
	}
	return master, slave, nil
}

func setSize(tty *os.File, w wire.Winsize) error {
	raw, err := tty.SyscallConn()
	if err != nil {
		return nil // closed: the session just ended
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: w.Rows, Col: w.Cols})
	})
	return nil
}
