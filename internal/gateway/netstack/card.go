package netstack

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// cardBuffer is how many bytes may wait on each side of a card. Hosts commonly allow less: a
// handful of large packets. A packet that does not fit is dropped, and TCP sends it again.
const cardBuffer = 4 << 20

// Card makes a network card: a pair of sockets that carry packets. One end is
// for New, the other goes to the sandbox.
func Card() (gateway, sandbox int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, -1, fmt.Errorf("make a network card: %w", err)
	}
	for _, fd := range pair {
		// More than the host's limit is cut to it: only speed depends on this.
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, cardBuffer)
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, cardBuffer)
	}
	return pair[0], pair[1], nil
}
