package gvisor

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// That there was no room is known whatever the sentry was at, which nobody understands.
func TestToldNoRoom(t *testing.T) {
	for text, want := range map[string]error{
		"error serializing object &wire.Map{Keys:[]wire.Object{}}: no space left on device:\nstack": unix.ENOSPC,
		"write: disk quota exceeded": unix.EDQUOT,
	} {
		if err := told(errors.New(text)); err != want { //nolint:errorlint // nothing else is to be in it
			t.Errorf("%q is told as %v", text, err)
		}
	}
	if err := told(errors.New("first\nsecond")); err == nil || err.Error() != "first" {
		t.Errorf("%v", err)
	}
	if err := told(nil); err != nil {
		t.Error(err)
	}
}
