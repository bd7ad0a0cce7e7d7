package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// Command is a program to run in a sandbox.
type Command struct {
	Args    []string
	Env     map[string]string // overrides the sandbox's own
	Workdir string            // empty: the first workspace
	User    string            // empty: the sandbox's user
	Stdin   io.Reader         // nil: no input
	// Stdout and Stderr receive the output. If both are nil, it goes to Result.Output.
	Stdout, Stderr io.Writer
	// Timeout limits the run time. After it the command ends, with all processes that it started. 0: no
	// limit.
	Timeout time.Duration
}

// Result is the result of a command.
type Result struct {
	ExitCode int    // 128 plus the signal, if a signal ended it
	Output   string // both streams, in order
	Notes    []string
}

const terminate = syscall.SIGTERM

// statusFD is the number of the first file in exec.Cmd's ExtraFiles.
const statusFD = 3

// Exec runs a command in a sandbox, and starts the sandbox if it is stopped. A command that ends with an
// exit code is not an error, whatever the code. The error is spec.ErrTimeout after a timeout, and
// spec.ErrNoSuchBinary if the command does not exist. The result has the output in any case.
func (c *Client) Exec(ctx context.Context, sandbox string, command Command) (Result, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = r.Close() }()
	vars, err := secretly(command.Env)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = vars.Close() }()
	var printed bytes.Buffer
	cmd := c.command(ctx, command.args(sandbox))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = command.Stdin, command.Stdout, command.Stderr
	if cmd.Stdout == nil && cmd.Stderr == nil {
		cmd.Stdout, cmd.Stderr = &printed, &printed
	}
	cmd.ExtraFiles = []*os.File{w}
	if vars != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, vars)
	}
	err = cmd.Start()
	_ = w.Close()
	if err != nil {
		return Result{}, fmt.Errorf("run bothy: %w", err)
	}
	result, end := readStatus(r)
	waited := cmd.Wait()
	result.Output = printed.String()
	if cause := context.Cause(ctx); cause != nil {
		return result, cause
	}
	if end == nil { // it failed before it could report a status
		return result, failure(ctx, "exec", waited, printed.String())
	}
	return result, end()
}

// args returns the equivalent arguments of bothy exec.
func (c *Command) args(sandbox string) []string {
	args := []string{"exec", fmt.Sprintf("--status-fd=%d", statusFD)}
	if len(c.Env) > 0 {
		args = append(args, envFile(1))
	}
	if c.Stdin != nil {
		args = append(args, "--interactive")
	}
	if c.Workdir != "" {
		args = append(args, "--workdir="+c.Workdir)
	}
	if c.User != "" {
		args = append(args, "--user="+c.User)
	}
	if c.Timeout > 0 {
		args = append(args, "--timeout="+c.Timeout.String())
	}
	return append(append(args, "--", sandbox), c.Args...)
}

// readStatus reads bothy's status messages until their end. The returned end reports the error, and is
// nil if bothy never reported an end.
func readStatus(r io.Reader) (result Result, end func() error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			Note     string          `json:"note"`
			ExitCode *int            `json:"exit_code"`
			Error    *spec.WireError `json:"error"`
		}
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			continue
		}
		switch {
		case line.Error != nil:
			result.ExitCode = line.Error.Code
			end = line.Error.Err
		case line.ExitCode != nil:
			result.ExitCode = *line.ExitCode
			end = func() error { return nil }
		default:
			result.Notes = append(result.Notes, line.Note)
		}
	}
	return result, end
}

// envFile returns the option for the n-th file of exec.Cmd's ExtraFiles.
func envFile(n int) string { return fmt.Sprintf("--env-file=/proc/self/fd/%d", statusFD+n) }
