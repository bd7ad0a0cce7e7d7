package gvisor

import (
	"errors"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// unsent is the beginning of gVisor's error for a request whose connection to the sentry failed. The
// sentry got no request, so a retry does nothing twice.
const unsent = "connecting to control server at PID "

// unsentError is the same error for a connection of our own.
type unsentError struct{ cause error }

func (e unsentError) Error() string { return "connect to the sentry: " + e.cause.Error() }
func (e unsentError) Unwrap() error { return e.cause }

// A connection to the sentry fails temporarily when the keeper, or the host, is out of descriptors
// or memory.
const (
	reachTime  = 2 * time.Second
	reachPause = 10 * time.Millisecond
)

// reachSentry makes a request to the sentry. It retries a request that was never sent, for reachTime; then
// it returns the error as refused.
func (w *wall) reachSentry(request func() error) error {
	return w.reachUntil(time.After(reachTime), request)
}

// reachUntil is reach with another time limit; nil retries until the sandbox ends.
func (w *wall) reachUntil(end <-chan time.Time, request func() error) error {
	for {
		err := request()
		reason, never := unsentReason(err)
		if !never {
			return err
		}
		select {
		case <-w.done:
			return refused{errEnded}
		case <-end:
			return refused{spec.Errorf(spec.ErrSandbox, "the kernel of the sandbox cannot be reached: %s", reason).
				WithHint("the host may have no open files or memory left; try again")}
		case <-time.After(reachPause):
		}
	}
}

// unsentReason returns whether a request failed before it was sent, and why. The name of a program is
// quoted in the text, and ignored.
func unsentReason(err error) (reason string, unsentYet bool) {
	if err == nil {
		return "", false
	}
	if own, ok := errors.AsType[unsentError](err); ok {
		return own.cause.Error(), true
	}
	text := err.Error()
	text = text[strings.LastIndexByte(text, '"')+1:]
	_, after, found := strings.Cut(text, unsent)
	_, reason, whole := strings.Cut(after, ": ")
	return reason, found && whole
}
