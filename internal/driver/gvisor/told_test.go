package gvisor

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// TestToldNoRoom checks that a full disk is recognised in the sentry's errors, whatever step they name.
func TestToldNoRoom(t *testing.T) {
	for text, want := range map[string]error{
		"error serializing object &wire.Map{Keys:[]wire.Object{}}: no space left on device:\nstack": unix.ENOSPC,
		"write: disk quota exceeded": unix.EDQUOT,
	} {
		if err := writeError(errors.New(text)); err != want { //nolint:errorlint // nothing else is to be in it
			t.Errorf("%q is told as %v", text, err)
		}
	}
	if err := writeError(errors.New("first\nsecond")); err == nil || err.Error() != "first" {
		t.Errorf("%v", err)
	}
	if err := writeError(nil); err != nil {
		t.Error(err)
	}
}

// TestFailedCall checks that the last step of a chain of gVisor's steps is kept, with the host's error.
func TestFailedCall(t *testing.T) {
	for text, want := range map[string]string{
		"cannot create sandbox: starting sandbox: fork/exec /x/y: too many open files":            "fork/exec /x/y: too many open files",
		"creating gofer filestore files: failed to create: open /proc/8/root: input/output error": "open /proc/8/root: input/output error",
		"open /x: no space left on device\nstack":                                                 "open /x: no space left on device",
		"starting container: it is odd\nstack":                                                    "starting container: it is odd",
	} {
		if err := failedCall(errors.New(text)); err.Error() != want {
			t.Errorf("%q becomes %q, want %q", text, err, want)
		}
	}
	if err := failedCall(errors.New("a: open /x: too many open files")); !errors.Is(err, unix.EMFILE) {
		t.Errorf("%v is no EMFILE", err)
	}
}
