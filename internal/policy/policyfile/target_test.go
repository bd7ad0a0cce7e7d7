package policyfile

import (
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/policy/target"
	"github.com/bothy-dev/bothy/spec"
)

// TestTargetWithUser checks that no error repeats the text before a host, which may be a
// password.
func TestTargetWithUser(t *testing.T) {
	for _, in := range []string{
		"user:hunter2@example.com", "hunter2@example.com:443", "user:p@hunter2@example.com", "user:/hunter2#@example.com",
		"https://user:hunter2@example.com/", "user:hunter2 @example.com", "usér:hunter2@example.com", "a,user:hunter2@example.com", "[hunter2@example.com",
	} {
		_, err := target.Parse(in)
		_, unknown := (&File{}).Remove(in)
		for _, err := range []error{err, unknown} {
			if err == nil || !strings.Contains(err.Error(), "@example.com") || strings.Contains(err.Error()+spec.Hint(err), "hunter2") {
				t.Errorf("%s: %v; hint: %s", in, err, spec.Hint(err))
			}
		}
	}
}
