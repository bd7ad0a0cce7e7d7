package spec

import (
	"fmt"
	"slices"
)

// Exit codes of every bothy command. Each means one thing, whichever command returns it, so a script
// need not know how far a command came. A command that runs a program otherwise returns that program's
// own code, or 128 plus the signal that ended it.
const (
	ExitOK       = 0
	ExitError    = 1
	ExitUsage    = 2
	ExitDenied   = 3
	ExitNotFound = 4
	ExitConflict = 5

	// Exit codes of a loop or flow, once it has begun.
	ExitAborted   = 6  // the agent gave up
	ExitWaiting   = 7  // for a person, or for an event outside of the run
	ExitLimit     = 8  // it reached one of its limits
	ExitStalled   = 9  // it makes no progress
	ExitPartly    = 10 // it ended, and left something undone
	ExitCancelled = 11 // a person cancelled it

	ExitMayHaveRun  = 123
	ExitTimeout     = 124
	ExitSandbox     = 125
	ExitNotRunnable = 126
	ExitNoSuchFile  = 127
	ExitSignal      = 128 // plus the signal's number
)

// Exit is one exit code and its name: the class of an error, or the outcome of a loop or flow.
type Exit struct {
	Code  int
	Name  string
	class error // nil: the outcome of a run, or success
}

// exits are all exit codes. If two errors share a code, the code stands for the first of them.
var exits = []Exit{
	{ExitOK, "done", nil},
	{ExitUsage, "usage", ErrUsage},
	{ExitDenied, "denied", ErrDenied},
	{ExitNotFound, "not_found", ErrNotFound},
	{ExitConflict, "conflict", ErrConflict},
	{ExitConflict, "stopping", ErrStopping}, // a conflict with the stopping of a sandbox
	{ExitAborted, "aborted", nil},
	{ExitWaiting, "waiting", nil},
	{ExitLimit, "limit", nil},
	{ExitStalled, "stalled", nil},
	{ExitPartly, "partly", nil},
	{ExitCancelled, "cancelled", nil},
	{ExitMayHaveRun, "may_have_run", ErrMayHaveRun},
	{ExitTimeout, "timeout", ErrTimeout},
	{ExitSandbox, "sandbox", ErrSandbox},
	{ExitNotRunnable, "not_runnable", ErrNotRunnable},
	{ExitNoSuchFile, "no_such_command", ErrNoSuchBinary},
	{ExitError, "error", nil}, // any other error
}

// Class returns the class of errors that end with this code. It is nil for the outcome of a run,
// for success, and for errors without a class.
func (x Exit) Class() error { return x.class }

// Exits returns bothy's own exit codes.
func Exits() []Exit { return slices.Clone(exits) }

// Exited is the error of a command whose program ended with a code of its own.
type Exited struct{ Code int }

func (e *Exited) Error() string { return fmt.Sprintf("exit status %d", e.Code) }
