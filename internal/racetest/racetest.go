// Package racetest excludes tests from a run with the race detector, in which they take ten times as
// long and find nothing: those that only compute, those that start hundreds of processes, those that
// repeat the same thing hundreds of times.
package racetest

import "testing"

// Skip skips a test if the race detector is on.
func Skip(t testing.TB) {
	t.Helper()
	if detects {
		t.Skip("without the race detector only")
	}
}
