package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// Command is a program to run in a sandbox.
type Command struct {
	Args    []string
	Env     map[string]string // over the sandbox's own
	Workdir string            // empty: the first workspace
	User    string            // empty: the sandbox's
	Stdin   io.Reader         // nil: nothing to read
	// Stdout and Stderr get what it prints. Without both it is Result.Output.
	Stdout, Stderr io.Writer
	// Timeout is how long it may take. Then it is ended with all that it has
	// started. 0: as long as it likes.
	Timeout time.Duration
}

// Result is how a command ended.
type Result struct {
	ExitCode int    // 128 plus the signal, if one ended it
	Output   string // what it printed, both streams in their order
	Notes    []string
}

const terminate = syscall.SIGTERM

// statusFD is the first of exec.Cmd's ExtraFiles.
const statusFD = 3

// Exec runs a command in a sandbox, which is started if it is stopped. A command
// that ends with an exit code is no error, whatever the code. One whose time was
// over is spec.ErrTimeout, one that is not there spec.ErrNoSuchBinary; the result
// has what was printed all the same.
func (c *Client) Exec(ctx context.Context, sandbox string, command Command) (Result, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = r.Close() }()
	var printed bytes.Buffer
	cmd := c.command(ctx, passed(command.Env).env, command.args(sandbox))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = command.Stdin, command.Stdout, command.Stderr
	if cmd.Stdout == nil && cmd.Stderr == nil {
		cmd.Stdout, cmd.Stderr = &printed, &printed
	}
	cmd.ExtraFiles = []*os.File{w}
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
	if end == nil { // it did not come as far as having a status to tell
		return result, failure(ctx, "exec", waited, printed.String())
	}
	return result, end()
}

// args are the words that say the same to bothy exec.
func (c *Command) args(sandbox string) []string {
	args := append([]string{"exec", fmt.Sprintf("--status-fd=%d", statusFD)}, passed(c.Env).args...)
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

// readStatus reads what bothy says of itself, until it ends. End gives the error,
// and is nil if that was never told.
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

// variables are set inside: by words of a command line and, for that is nobody
// else's to read, by its environment.
type variables struct{ args, env []string }

// passed has variables passed on. Those that bothy itself would listen to are
// said in words.
func passed(vars map[string]string) (v variables) {
	for name, value := range vars {
		if own(name) {
			v.args = append(v.args, "--env="+name+"="+value)
			continue
		}
		v.args = append(v.args, "--env="+name)
		v.env = append(v.env, name+"="+value)
	}
	slices.Sort(v.args)
	return v
}

// own tells whether a variable means something to bothy, to Go or to what they
// start.
func own(name string) bool {
	for _, prefix := range []string{"BOTHY_", "XDG_", "GO", "SSL_", "DBUS_", "LC_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return slices.Contains([]string{"HOME", "PATH", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "LANG", "PWD"}, name)
}

func (c *Client) environ() []string {
	if c.Env != nil {
		return c.Env
	}
	return os.Environ()
}
