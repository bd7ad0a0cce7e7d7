package spec

import (
	"errors"
	"fmt"
)

// Classes of errors. errors.Is tells them apart; every class has an exit code of its own (see ExitCode).
var (
	ErrUsage        = errors.New("usage")
	ErrDenied       = errors.New("denied")
	ErrNotFound     = errors.New("not found")
	ErrConflict     = errors.New("conflict")
	ErrStopping     = errors.New("stopping") // the sandbox is stopping: try again
	ErrTimeout      = errors.New("time is over")
	ErrMayHaveRun   = errors.New("the command may have run") // its answer was lost: never run it again without asking the user
	ErrSandbox      = errors.New("the sandbox itself failed")
	ErrNotRunnable  = errors.New("command cannot be run")
	ErrNoSuchBinary = errors.New("command not found")
)

// Error is a failure that a person can do something about: the operation and its object, the cause, and
// the next step.
type Error struct {
	Class error  // one of the Err… above; nil is a plain error
	Op    string // the operation, a verb phrase: "start sandbox shell-app"
	Err   error  // the cause
	Hint  string // the next step, a sentence without a full stop; may be empty

	flagHint string // the hint with flags in the place of options; empty if it names none
}

func (e *Error) Error() string {
	switch {
	case e.Err == nil:
		return e.Op
	case e.Op == "":
		return e.Err.Error()
	}
	return e.Op + ": " + e.Err.Error()
}

// Unwrap lets errors.Is find the class and the cause.
func (e *Error) Unwrap() []error {
	var errs []error
	if e.Class != nil {
		errs = append(errs, e.Class)
	}
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	return errs
}

// Errorf makes an Error of a class without a hint. The text may name options: see Option.
func Errorf(class error, format string, args ...any) *Error {
	return &Error{Class: class, Err: formatError(format, args)}
}

// WithHint adds the next step and returns the error. The hint may name options: see Option.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint, e.flagHint = fmt.Sprintf(format, args...), ""
	if flags := withFlags(args); flags != nil {
		e.flagHint = fmt.Sprintf(format, flags...)
	}
	return e
}

// Hint returns the innermost advice in a chain of errors. If the chain has no advice but holds an error
// of the host, such as a full disk, it returns the advice for that.
func Hint(err error) string {
	if errors.Is(err, ErrNewer) { // no other advice would help
		return upgradeHint
	}
	if hint := ownHint(err); hint != "" {
		return hint
	}
	return errnoHint(err)
}

// Advised returns an error's text with its hint, on one line.
func Advised(err error) string {
	if hint := Hint(err); hint != "" {
		return err.Error() + "; " + hint
	}
	return err.Error()
}

func ownHint(err error) string {
	for err != nil {
		var e *Error
		if !errors.As(err, &e) {
			return ""
		}
		if e.Hint != "" {
			return e.Hint
		}
		err = e.Err
	}
	return ""
}

// ExitCode returns the exit code for an error; nil is ExitOK.
func ExitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	if exited, ok := errors.AsType[*Exited](err); ok {
		return exited.Code
	}
	for _, c := range exits {
		if c.class != nil && errors.Is(err, c.class) {
			return c.Code
		}
	}
	return ExitError
}

// WireError is an Error as it crosses a process boundary or is printed with
// --json.
type WireError struct {
	Class   string `json:"class"` // usage, denied, not_found, conflict, stopping, timeout, may_have_run, sandbox, not_runnable, no_such_command or error
	Code    int    `json:"code"`  // the exit code
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// ToWire flattens an error for the other side.
func ToWire(err error) *WireError {
	w := &WireError{Class: "error", Code: ExitCode(err), Message: err.Error(), Hint: Hint(err)}
	for _, c := range exits {
		if c.class != nil && errors.Is(err, c.class) {
			w.Class = c.Name
			break
		}
	}
	return w
}

// Err rebuilds the error on the receiving side, its class intact.
func (w *WireError) Err() error {
	e := &Error{Err: errors.New(w.Message), Hint: w.Hint}
	for _, c := range exits {
		if c.Name == w.Class {
			e.Class = c.class
		}
	}
	return e
}

// ClassOf returns the class for an exit code of bothy, or nil if the code has none, like the codes of
// programs inside.
func ClassOf(code int) error {
	for _, c := range exits {
		if c.Code == code {
			return c.class
		}
	}
	return nil
}
