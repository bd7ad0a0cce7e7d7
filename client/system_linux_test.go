package client

import (
	"strings"
	"testing"
)

// TestNotes checks that a note cannot control the terminal that a program prints it on.
func TestNotes(t *testing.T) {
	var got string
	c := Client{Notes: func(text string) { got = text }}
	c.passNote("from %s\nline", "\x1b[31mproject\x1b]0;x\x07")
	if strings.ContainsAny(got, "\x1b\x07") || !strings.HasPrefix(got, "from ") {
		t.Errorf("%q", got)
	}
}
