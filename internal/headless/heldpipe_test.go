package headless

import (
	"errors"
	"io"
	"os"
	"testing"
)

// TestHeldPipe follows bytes through a pipe and its reader.
func TestHeldPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	p := &HeldPipe{File: r}
	pending := func(want bool, when string) {
		t.Helper()
		if got := p.IsPending(); got != want {
			t.Errorf("%s: %t", when, got)
		}
	}
	pending(false, "an empty pipe")
	if _, err := w.WriteString("bytes"); err != nil {
		t.Fatal(err)
	}
	pending(true, "bytes in the pipe")
	buf := make([]byte, 16)
	if n, err := p.ReadHeld(buf); err != nil || string(buf[:n]) != "bytes" {
		t.Errorf("%q, %v", buf[:n], err)
	}
	pending(true, "bytes held")
	p.Release()
	pending(false, "bytes passed on")
	w.Close()
	if n, err := p.ReadHeld(buf); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %d, %v", n, err)
	}
	pending(false, "the end")
	r.Close()
	if _, err := p.ReadHeld(buf); err == nil {
		t.Error("a closed pipe is read")
	}
	pending(false, "closed")
}
