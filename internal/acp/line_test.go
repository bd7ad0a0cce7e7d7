package acp

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// TestStalled checks that an agent that does not read is not waited for, and that an editor that is gone is
// told from one that is slow.
func TestStalled(t *testing.T) {
	_, full := openPipe(t)
	to := &lineWriter{w: full, limit: 50 * time.Millisecond}
	long := message{method: "session/prompt", params: quoteText(strings.Repeat("x", 1<<20))}
	if err := to.writeMessage(long); !errors.Is(err, errStalled) {
		t.Errorf("%v", err)
	}
	r, w := openPipe(t)
	r.Close()
	gone := &lineWriter{w: w, gone: errEditorGone}
	if err := gone.writeMessage(long); !errors.Is(err, errEditorGone) {
		t.Errorf("%v", err)
	}
}

// TestReadLine checks lines at the bound, blank ones, and the last one without an end.
func TestReadLine(t *testing.T) {
	whole := bytes.Repeat([]byte("x"), MaxMessage-1)
	text := append([]byte("\n \r\n"), whole...)
	text = append(text, "\nyx"...)
	text = append(text, whole...)
	text = append(text, "\nafter\n\t\nlast"...)
	r := newLineReader(bytes.NewReader(text))
	if line, err := r.readLine(); err != nil || len(line) != MaxMessage {
		t.Errorf("%d bytes, %v", len(line), err)
	}
	if _, err := r.readLine(); !errors.Is(err, errTooLong) {
		t.Errorf("%v", err)
	}
	if err := r.skipLine(); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"after\n", "last"} {
		if line, err := r.readLine(); err != nil || string(line) != want {
			t.Errorf("%q, %v", line, err)
		}
	}
	if _, err := r.readLine(); !errors.Is(err, io.EOF) {
		t.Errorf("%v", err)
	}
}
