package run

import "github.com/bothy-dev/bothy/spec"

// ExitCode is that of the command that carried a run on: status is how it stands, partly
// tells that it came to its end and left something undone, and signal is what interrupted it.
// A loop and a flow end alike where they mean the same.
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
