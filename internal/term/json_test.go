package term

import (
	"encoding/json"
	"testing"
)

// TestEscapeJSON checks that escaped JSON hides nothing, keeps visible characters, and means the
// same.
func TestEscapeJSON(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"a": "b"}`, `{"a": "b"}`},
		{"[\n  \"é日😀\"\n]", "[\n  \"é日😀\"\n]"},
		{"\"a\x7f\u009b\u202eb\"", `"a\u007f\u009b\u202eb"`},
		{"\"a\u200b\ufeff\u00adb\"", `"a\u200b\ufeff\u00adb"`},
		{"\"a\ufe01\U000e0041\U000e0100\"", `"a\ufe01\udb40\udc41\udb40\udd00"`},
		{"\"❤\ufe0f\u200d🔥\"", "\"❤\ufe0f\u200d🔥\""},
		{"\"\u200d\"", `"\u200d"`},
	} {
		got := string(EscapeJSON([]byte(c.in)))
		if got != c.want {
			t.Errorf("%q became %q, want %q", c.in, got, c.want)
		}
		var was, is any
		if json.Unmarshal([]byte(c.in), &was) == nil && (json.Unmarshal([]byte(got), &is) != nil || !equal(was, is)) {
			t.Errorf("%q says something else: %v, not %v", got, is, was)
		}
	}
}

func equal(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}
