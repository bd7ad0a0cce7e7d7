package gvisor

import (
	"errors"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// unsent is how gVisor begins the error for a request whose connection to the sentry could not
// be made. The sentry was not asked, so asking again does nothing twice.
const unsent = "connecting to control server at PID "

// unsentError is that of a connection of our own.
type unsentError struct{ cause error }

func (e unsentError) Error() string { return "connect to the sentry: " + e.cause.Error() }
func (e unsentError) Unwrap() error { return e.cause }

// A connection to the sentry fails for a moment when the keeper, or the host, has no
// descriptors or memory left.
const (
	reachTime  = 2 * time.Second
	reachPause = 10 * time.Millisecond
)

// reach makes a request to the sentry. It repeats one that was never sent, for reachTime; the
// error is refused then.
func (w *wall) reach(request func() error) error {
	return w.reachUntil(time.After(reachTime), request)
}

// reachUntil is reach with another end; nil repeats until the sandbox ends.
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

// unsentReason says whether a request failed before it was sent, and why. What a program is
// called stands in quotation marks and does not count.
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
