package gateway

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/gateway/dial"
	"github.com/bothy-dev/bothy/spec"
)

// brokenOff describes for people how an allowed connection failed. Errors of the host's kernel
// contain addresses, which the record has already, and the other side's words.
func brokenOff(err error, direction string) string {
	_, undialled := errors.AsType[*dial.Failed](err)
	_, isOp := errors.AsType[*net.OpError](err)
	why, isKernels := errors.AsType[unix.Errno](err)
	if undialled || !isOp || !isKernels {
		return err.Error()
	}
	other := "the server"
	if direction == spec.DirectionIn {
		other = "whoever connected"
	}
	if why == unix.ECONNRESET || why == unix.EPIPE {
		return other + " has cut the connection"
	}
	return "the connection to " + other + " broke off: " + why.Error()
}
