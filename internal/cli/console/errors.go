package console

import (
	"errors"
	"slices"
)

// Join returns one error that Report prints as several. It drops nil errors and returns a single error
// unchanged.
func Join(errs []error) error {
	errs = slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	return errors.Join(errs...)
}

// splitErrors returns the errors that Join, or errors.Join, combined.
func splitErrors(err error) []error {
	if m, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err); ok && len(m.Unwrap()) > 1 && m.Error() == err.Error() && errors.Join(m.Unwrap()...).Error() == m.Error() { // not wrapped in another message
		return m.Unwrap()
	}
	return []error{err}
}
