package harness

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Some tests run twice: by root, and again by an ordinary user. Then callersVar names the caller whose
// turn it is. Without it a test runs for every possible kind of caller.

// AsUser leaves a test to the ordinary user, because it is the same for root.
func AsUser(t testing.TB) {
	t.Helper()
	leaveTo(t, "user")
}

// AsRoot leaves a test to root, because it is the same for an ordinary user.
func AsRoot(t testing.TB) {
	t.Helper()
	leaveTo(t, "root")
}

func leaveTo(t testing.TB, who string) {
	t.Helper()
	if turn := strings.Fields(os.Getenv(callersVar)); len(turn) > 0 && !slices.Contains(turn, who) {
		t.Skip("this test is left to " + who + ", for whom it is the same")
	}
}

// sweepsVar enables sweeps.
const sweepsVar = "BOTHY_TEST_SWEEPS"

// Sweep is for a long test that tries the same thing in many ways, such as a storm: it runs only if
// requested, by the make target that it names.
func Sweep(t testing.TB, target string) {
	t.Helper()
	if os.Getenv(sweepsVar) == "" {
		t.Skip("a sweep: make " + target)
	}
}
