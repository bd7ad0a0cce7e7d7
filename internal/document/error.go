package document

import "github.com/bothy-dev/bothy/spec"

// Error is the answer to a failed request.
type Error struct {
	Error Failure `json:"error"`
}

// Failure says why a request failed, and what to do next.
type Failure struct {
	Code string   `json:"code"` // the class of the error, such as not_found
	Why  string   `json:"why"`
	Next []string `json:"next"` // steps that may help, such as a command
	Exit int      `json:"exit"` // the exit code that the command line would have
}

// FailureOf returns the answer for an error.
func FailureOf(err error) Error {
	w := spec.ToWire(err)
	f := Failure{Code: w.Class, Why: w.Message, Next: []string{}, Exit: w.Code}
	if w.Hint != "" {
		f.Next = append(f.Next, w.Hint)
	}
	return Error{f}
}

// StatusOf returns the HTTP status for an exit code.
func StatusOf(exit int) int {
	switch exit {
	case spec.ExitUsage:
		return 400
	case spec.ExitDenied:
		return 403
	case spec.ExitNotFound:
		return 404
	case spec.ExitConflict, spec.ExitMayHaveRun:
		return 409
	case spec.ExitNotRunnable, spec.ExitNoSuchFile:
		return 422
	case spec.ExitTimeout:
		return 504
	}
	return 500 // the server, or the sandbox, failed
}
