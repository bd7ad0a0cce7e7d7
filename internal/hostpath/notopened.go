package hostpath

import (
	"errors"

	"github.com/bothy-dev/bothy/spec"
)

// NotOpened wraps an error about a path that a person names: op is the action that failed. A refusal
// keeps its own class.
func NotOpened(class error, op string, err error) *spec.Error {
	if errors.Is(err, spec.ErrDenied) {
		class = nil
	}
	return &spec.Error{Class: class, Op: op, Err: err}
}
