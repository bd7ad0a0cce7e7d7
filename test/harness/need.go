package harness

import (
	"os"
	"testing"
)

// CompleteVar is set on a machine that has everything that the tests can use (.ci/run): then a test
// fails for a missing program instead of skipping.
const CompleteVar = "BOTHY_TEST_COMPLETE"

// Missing skips a test because the machine lacks something optional.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv(CompleteVar) != "" {
		t.Fatalf("missing, and "+CompleteVar+" is set: "+format, args...)
	}
	t.Skipf("skipped: "+format, args...)
}
