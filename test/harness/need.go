package harness

import (
	"os"
	"testing"
)

// CompleteVar is set on a machine that was set up with everything the tests can use (.ci/run): a
// test must then fail for a missing program, not skip.
const CompleteVar = "BOTHY_TEST_COMPLETE"

// Missing skips a test for lack of something that a machine may have or not.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv(CompleteVar) != "" {
		t.Fatalf("missing, and "+CompleteVar+" is set: "+format, args...)
	}
	t.Skipf("skipped: "+format, args...)
}
