package run

import "github.com/bothy-dev/bothy/spec"

// ends are the exit codes of whoever carried a run on, by how that stands then. A loop and a
// flow end alike where they mean the same.
var ends = map[string]int{
	"completed": spec.ExitOK,
	"failed":    spec.ExitError,
	"aborted":   spec.ExitAborted,
	"waiting":   spec.ExitWaiting,
	"limit":     spec.ExitLimit,
	"stalled":   spec.ExitStalled,
	"cancelled": spec.ExitCancelled,
}

// ExitCode is that of the command that carried a run on: status is how it stands, partly
// tells that it came to its end and left something undone, and signal is what interrupted it.
func ExitCode(status string, partly bool, signal int) int {
	switch code, known := ends[status]; {
	case status == "completed" && partly:
		return spec.ExitPartly
	case status == "interrupted":
		return spec.ExitSignal + signal
	case known:
		return code
	}
	return spec.ExitError
}
