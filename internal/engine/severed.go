package engine

import (
	"errors"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// severed tells whether an error is that a conversation with a keeper ended at its other end,
// or was closed here because a time was over. Its text is about sockets, and helps nobody.
func severed(err error) bool {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, os.ErrDeadlineExceeded, unix.ECONNRESET, unix.EPIPE} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}
