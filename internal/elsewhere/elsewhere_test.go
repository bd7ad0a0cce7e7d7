package elsewhere

import (
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// TestMain checks that the version works anywhere, and that all other commands report that they
// need Linux, in the form of errors.
func TestMain(t *testing.T) {
	for _, tt := range []struct {
		line         string
		code         int
		stdout, said string
	}{
		{"version", spec.ExitOK, "bothy ", ""},
		{"--version", spec.ExitOK, "bothy ", ""},
		{"run claude .", spec.ExitSandbox, "", "bothy: error: sandboxes need Linux, and this is "},
		{"", spec.ExitSandbox, "", "bothy: hint: run bothy on a Linux machine"},
		{"ls --json", spec.ExitSandbox, "", `{"error":{"class":"sandbox","code":125,"message":"sandboxes need Linux`},
	} {
		var out, said strings.Builder
		code := Main(append([]string{"bothy"}, strings.Fields(tt.line)...), &out, &said)
		if code != tt.code || !strings.HasPrefix(out.String(), tt.stdout) || !strings.Contains(said.String(), tt.said) || (tt.stdout == "") != (out.Len() == 0) {
			t.Errorf("%q: %d, printed %q, said %q", tt.line, code, out.String(), said.String())
		}
	}
}
