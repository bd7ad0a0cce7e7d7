package gateway

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/gateway/dial"
	"github.com/bothy-dev/bothy/spec"
)

// brokenOff says for people how what was let through has failed. The host's kernel tells of a
// connection by addresses, which the record has, and by the other side's words.
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
