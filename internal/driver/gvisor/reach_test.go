package gvisor

import (
	"errors"
	"testing"
	"time"
)

// TestUnsentReason checks that only a request whose connection failed counts as never sent.
func TestUnsentReason(t *testing.T) {
	for text, want := range map[string]bool{
		`executing command "sh -c x" in sandbox: connecting to control server at PID 13: too many open files`:      true,
		`pausing container "ab": connecting to control server at PID 17: interrupted system call`:                  true,
		`connecting to control server at PID 9: no space left on device`:                                           true,
		`executing command "connecting to control server at PID 1: x" in sandbox: EOF`:                             false,
		`executing command "\"connecting to control server at PID 1: x\"" in sandbox: urpc method "E" failed: EOF`: false,
		`executing command "true" in sandbox: EOF`:                                                                 false,
		`connecting to control server`: false,
	} {
		if _, got := unsentReason(errors.New(text)); got != want {
			t.Errorf("%s: never sent is %v, want %v", text, got, want)
		}
	}
}

// TestReachRepeats checks that a request is retried while it cannot be sent, and not after.
func TestReachRepeats(t *testing.T) {
	w := &wall{done: make(chan struct{})}
	lost := errors.New(`executing command "true" in sandbox: EOF`)
	answers := []error{
		errors.New("connecting to control server at PID 1: too many open files"),
		errors.New("connecting to control server at PID 1: interrupted system call"),
		lost,
	}
	calls := 0
	err := w.reachSentry(func() error { calls++; return answers[calls-1] })
	if !errors.Is(err, lost) || calls != 3 {
		t.Errorf("after %d calls: %v, want the lost answer after 3", calls, err)
	}
	over := make(chan time.Time)
	close(over)
	if err := w.reachUntil(over, func() error { return answers[0] }); !errors.Is(err, errRefused) {
		t.Error("a sentry that cannot be reached was taken for one that answered")
	}
	close(w.done)
	if err := w.reachUntil(nil, func() error { return answers[0] }); !errors.Is(err, errEnded) {
		t.Errorf("of a sandbox that ended: %v", err)
	}
}
