package client

import (
	"bytes"
	"context"
	"io"
	"time"
)

// Command is a program to run in a sandbox.
type Command struct {
	Args    []string
	Env     map[string]string // overrides the sandbox's own
	Workdir string            // empty: the first workspace
	User    string            // empty: the sandbox's user
	// Stdin is the input. Nil: none. The command reads an *os.File that is a pipe itself. Any other *os.File
	// is read until the command ends: bytes that arrive later stay in it for the next command, but up to 96
	// KiB that were read before, and that the command did not read, are lost. Exec does not wait for a Read
	// of another reader that goes on after the command's end; the bytes of that Read are lost.
	Stdin io.Reader
	// Stdout and Stderr receive the output. If both are nil, it goes to Result.Output. If they are the
	// same writer, one goroutine at a time writes to it. After a writer's error the command gets SIGPIPE
	// when it writes more; Exec returns that error if the command exits with 0 nevertheless.
	Stdout, Stderr io.Writer
	// Timeout limits the run time. After it the command ends, with all processes that it started. 0: no
	// limit.
	Timeout time.Duration
	// SkipSetUp runs the command at once, without the commands of the sandbox's devcontainer.json that are due.
	SkipSetUp bool
}

// Result is the result of a command.
type Result struct {
	ExitCode int    // 128 plus the signal, if a signal ended it
	Output   string // both streams, in order
	Notes    []string
}

// Exec runs a command in a sandbox, and starts the sandbox if it is stopped. It first runs the commands of the
// sandbox's devcontainer.json that are due, as "bothy exec" does: their output goes to Client.Notes, Timeout does
// not limit them, and if one fails, the error is of class spec.ErrSandbox and the command is not run. A command
// that ends with an exit code is not an error, whatever the code. The error is of class spec.ErrTimeout after a timeout,
// spec.ErrNoSuchBinary if the command does not exist, and spec.ErrMayHaveRun if it is not known whether
// the command has begun. When ctx ends, the command gets SIGTERM, and SIGKILL a second later; the error is
// the cause of ctx. The result has the output in any case.
func (c *Client) Exec(ctx context.Context, sandbox string, command Command) (Result, error) {
	var printed bytes.Buffer
	switch {
	case command.Stdout == nil && command.Stderr == nil:
		command.Stdout, command.Stderr = &printed, &printed
	case command.Stdout == nil:
		command.Stdout = io.Discard
	case command.Stderr == nil:
		command.Stderr = io.Discard
	}
	result, err := c.execCommand(ctx, sandbox, &command)
	result.Output = printed.String()
	return result, err
}
