package guest

import (
	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/wire"
)

// setClock has the wall let programs read the time without asking it: see
// [wire.ClockFamily]. Where nobody listens, nothing is lost but speed.
func setClock() {
	if fd, err := unix.Socket(wire.ClockFamily, unix.SOCK_DGRAM, 0); err == nil {
		_ = unix.Close(fd)
	}
}
