package console

import (
	"errors"
	"slices"
)

// many are errors of their own, each with its own advice.
type many struct{ list []error }

func (m *many) Error() string   { return errors.Join(m.list...).Error() }
func (m *many) Unwrap() []error { return m.list }

// Join makes one error of several that are told one by one. It leaves out nil, and leaves a single one
// as it is.
func Join(errs []error) error {
	errs = slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	return &many{errs}
}

// apart gives the errors that an error was joined from.
func apart(err error) []error {
	if m, ok := errors.AsType[*many](err); ok && m.Error() == err.Error() { // it was not wrapped in another message
		return m.list
	}
	return []error{err}
}
