package keeperclient

import (
	"errors"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// IsSevered reports whether an error means that a conversation with a keeper ended at its other end,
// or was closed here at a deadline. The error's text is about sockets, and does not help the user.
func IsSevered(err error) bool {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, os.ErrDeadlineExceeded, unix.ECONNRESET, unix.EPIPE} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}
