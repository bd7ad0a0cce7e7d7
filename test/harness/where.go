package harness

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Some tests run twice: by root, and again by an ordinary user. callersVar says that, and names the
// caller whose turn it is. Without it a test runs for every kind of caller that is possible.

// AsUser leaves a test to the ordinary user: it is the same for root.
func AsUser(t testing.TB) {
	t.Helper()
	leaveTo(t, "user")
}

// AsRoot leaves a test to root: it is the same for an ordinary user.
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

// sweepsVar has sweeps run.
const sweepsVar = "BOTHY_TEST_SWEEPS"

// Sweep is for a test that takes long and tries the same in many ways, as a storm does: it runs if
// it is asked for, by the target of make that it names.
func Sweep(t testing.TB, target string) {
	t.Helper()
	if os.Getenv(sweepsVar) == "" {
		t.Skip("a sweep: make " + target)
	}
}
