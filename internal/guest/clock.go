package guest

import (
	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/wire"
)

// setClock makes the wall let programs read the time without a system call: see
// [wire.ClockFamily]. If the wall does not support that, programs only read the time more slowly.
func setClock() {
	if fd, err := unix.Socket(wire.ClockFamily, unix.SOCK_DGRAM, 0); err == nil {
		_ = unix.Close(fd)
	}
}
