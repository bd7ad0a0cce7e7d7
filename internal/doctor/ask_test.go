package doctor

import (
	"strings"
	"testing"
)

// TestAdvice checks that hints are kept, except those about the sandbox, which is gone.
func TestAdvice(t *testing.T) {
	for _, c := range []struct{ said, rest, hint string }{
		{"", "", ""},
		{"bothy: error: x: not found\n", "bothy: error: x: not found\n", ""},
		{"a\nbothy: error: x: not found\nbothy: hint: bothy exec x-bothy-doctor-1 get x\n", "a\nbothy: error: x: not found\n", ""},
		{"bothy: error: no room\nbothy: hint: bothy prune\n", "bothy: error: no room\n", "bothy prune"},
	} {
		if rest, hint := advice(c.said, "bothy-doctor-1"); rest != c.rest || hint != c.hint {
			t.Errorf("%q: %q, %q", c.said, rest, hint)
		}
	}
}

func TestShortened(t *testing.T) {
	long := strings.Repeat("word ", mostSaid)
	if got := shortened(long); len(got) > mostSaid+len(" …") || !strings.HasSuffix(got, "word …") {
		t.Errorf("%q", got)
	}
	if got := shortened(strings.Repeat("ä", mostSaid)); !strings.HasPrefix(got, "ää") || strings.Contains(got, "\ufffd") || !strings.HasSuffix(got, "ä …") {
		t.Errorf("%q", got)
	}
	if got := shortened("a short one"); got != "a short one" {
		t.Errorf("%q", got)
	}
}
