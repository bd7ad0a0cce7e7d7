// Package racetest leaves tests out of a run with the race detector, in which they take ten times as
// long and find nothing: those that only compute, those that start processes by the hundred, those
// that begin the same things hundreds of times.
package racetest

import "testing"

// Skip leaves a test out if the race detector is on.
func Skip(t testing.TB) {
	t.Helper()
	if detects {
		t.Skip("without the race detector only")
	}
}
