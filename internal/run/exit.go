package run

import "github.com/bothy-dev/bothy/spec"

// ExitCode returns the exit code of the command that carried a run on. status is the run's state,
// partly says that it ended and left something undone, and signal is the one that interrupted it.
// Loops and flows share the codes of their common states.
func ExitCode(status string, partly bool, signal int) int {
	switch status {
	case "completed":
		if partly {
			return spec.ExitPartly
		}
		return spec.ExitOK
	case "aborted":
		return spec.ExitAborted
	case "waiting":
		return spec.ExitWaiting
	case "limit":
		return spec.ExitLimit
	case "stalled":
		return spec.ExitStalled
	case "cancelled":
		return spec.ExitCancelled
	case "interrupted":
		return spec.ExitSignal + signal
	}
	return spec.ExitError
}
