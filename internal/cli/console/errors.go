package console

import (
	"errors"
	"slices"
)

// many holds several errors, each with a hint of its own.
type many struct{ list []error }

func (m *many) Error() string   { return errors.Join(m.list...).Error() }
func (m *many) Unwrap() []error { return m.list }

// Join returns one error that Report prints as several. It drops nil errors and returns a single one
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

// apart returns the errors that Join combined.
func apart(err error) []error {
	if m, ok := errors.AsType[*many](err); ok && m.Error() == err.Error() { // not wrapped in another message
		return m.list
	}
	return []error{err}
}
