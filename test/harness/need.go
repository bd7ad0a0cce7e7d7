package harness

import (
	"os"
	"testing"
)

// CompleteVar is set where a machine was made to have all that the tests can use
// (.ci/run): what is missing there is no reason to skip, but a failure.
const CompleteVar = "BOTHY_TEST_COMPLETE"

// Missing skips a test for lack of something that a machine may have or not.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv(CompleteVar) != "" {
		t.Fatalf("missing, and "+CompleteVar+" is set: "+format, args...)
	}
	t.Skipf("skipped: "+format, args...)
}
