// Package client makes sandboxes and runs commands in them, from Go programs.
//
// It works through the bothy command, whose arguments, JSON and exit codes are a stable interface:
// a program built with one version works with another. It needs no daemon and no login. Sandboxes
// are those that "bothy ls" shows.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// Client runs the bothy command. The zero value runs the one in PATH.
type Client struct {
	// Program is the command; empty: "bothy" in PATH.
	Program string
	// Env is its environment, as for exec.Cmd; nil: this process's. BOTHY_HOME in
	// it says where sandboxes are kept.
	Env []string
}

// Sandbox says what to create. An empty field means that the option of "bothy create" with its name is
// left out.
type Sandbox struct {
	Name       string
	Agent      string   // an agent, "shell", or a program by its path
	Workspaces []string // DIR[:ro]; commands start in the first
	Volumes    []string // SRC[:DST][:ro]
	// WorkspaceMode is "live", "review" or "clone". Default: live.
	WorkspaceMode string
	Env           map[string]string
	Template      string
	User          string
	Workdir       string

	Presets, Allow, Deny []string // network rules
	Secrets              []string // NAME[:TIME]
	Lend                 []string // TOOL[:HOST], tools of this host whose credentials to lend: github, npm, ssh ...
	Mock                 string   // a script that plays the providers of models

	Budget     spec.Budget // for models; zero: no limit
	Checkpoint string      // automatic ones: each-turn, each-commit, 10m

	CPUs         float64
	Memory, Disk string // 4g
	Pids         int
	IdleTimeout  time.Duration
}

// args returns the equivalent arguments of bothy create.
func (s *Sandbox) args() []string {
	args := []string{"create", "--json"}
	add := func(flag string, values ...string) {
		for _, v := range values {
			if v != "" {
				args = append(args, flag+"="+v)
			}
		}
	}
	add("--name", s.Name)
	add("--template", s.Template)
	add("--user", s.User)
	add("--workdir", s.Workdir)
	add("--volume", s.Volumes...)
	add("--workspace", s.WorkspaceMode)
	add("--preset", s.Presets...)
	add("--allow", s.Allow...)
	add("--deny", s.Deny...)
	add("--secret", s.Secrets...)
	add("--lend", s.Lend...)
	add("--mock", s.Mock)
	add("--checkpoint", s.Checkpoint)
	add("--memory", s.Memory)
	add("--disk", s.Disk)
	if s.CPUs > 0 {
		add("--cpus", fmt.Sprint(s.CPUs))
	}
	if s.Pids > 0 {
		add("--pids", fmt.Sprint(s.Pids))
	}
	if s.Budget.Tokens > 0 {
		add("--max-tokens", fmt.Sprint(s.Budget.Tokens))
	}
	if s.Budget.USD > 0 {
		add("--max-cost", fmt.Sprint(s.Budget.USD))
	}
	if s.IdleTimeout > 0 {
		add("--idle-timeout", s.IdleTimeout.String())
	}
	return args
}

// Create creates a sandbox and returns its description. The first command in it will start it. If the
// name is taken, the error is spec.ErrConflict.
func (c *Client) Create(ctx context.Context, s Sandbox) (*spec.Sandbox, error) {
	vars, err := secretly(s.Env)
	if err != nil {
		return nil, err
	}
	args := s.args()
	var files []*os.File
	if vars != nil {
		defer func() { _ = vars.Close() }()
		args, files = append(args, envFile(0)), append(files, vars)
	}
	var made spec.Sandbox
	return &made, c.json(ctx, &made, append(append(args, "--", s.Agent), s.Workspaces...), files...)
}

// Listed is an entry in a list of sandboxes.
type Listed struct {
	Name       string   `json:"name"`
	ID         string   `json:"id"`
	Agent      string   `json:"agent"`
	Status     string   `json:"status"` // stopped, starting, running or stopping
	Workspaces []string `json:"workspaces"`
}

// List returns all sandboxes, sorted by name.
func (c *Client) List(ctx context.Context) ([]Listed, error) {
	var doc struct {
		Sandboxes []Listed `json:"sandboxes"`
	}
	err := c.json(ctx, &doc, []string{"ls", "--json"})
	return doc.Sandboxes, err
}

// Stop stops a sandbox; its files stay. Stopping a stopped sandbox is not an error.
func (c *Client) Stop(ctx context.Context, name string) error {
	return c.json(ctx, nil, []string{"stop", "--", name})
}

// Remove removes a sandbox with everything that belongs to it, at once. If the sandbox does not exist,
// the error is spec.ErrNotFound.
func (c *Client) Remove(ctx context.Context, name string) error {
	return c.json(ctx, nil, []string{"rm", "--force", "--", name})
}

// json runs a command and decodes its answer.
func (c *Client) json(ctx context.Context, answer any, args []string, files ...*os.File) error {
	if err := supported(); err != nil {
		return err
	}
	cmd := c.command(ctx, args)
	cmd.ExtraFiles = files
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return failure(ctx, args[0], err, complaint.String())
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(out.Bytes(), answer); err != nil {
		return fmt.Errorf("read what bothy %s prints: %w", args[0], err)
	}
	return nil
}

// command prepares a run of bothy. When the context ends, bothy and the command inside get a signal to
// end, and are killed shortly after.
func (c *Client) command(ctx context.Context, args []string) *exec.Cmd {
	program := c.Program
	if program == "" {
		program = "bothy"
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = c.Env
	cmd.Cancel = func() error { return cmd.Process.Signal(terminate) }
	cmd.WaitDelay = endTime
	return cmd
}

// endTime is how long a command may take to end after that signal, and how long its leftover processes
// may keep printing.
const endTime = 2 * time.Second

// failure returns the error for a failed run of bothy. Its class is that of the exit code.
func failure(ctx context.Context, what string, err error, complaint string) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return fmt.Errorf("run bothy: %w", err)
	}
	message, hint := exit.Error(), ""
	for line := range strings.SplitSeq(complaint, "\n") {
		var doc struct{ Error *spec.WireError }
		if json.Unmarshal([]byte(line), &doc) == nil && doc.Error != nil {
			return doc.Error.Err()
		}
		if text, ok := strings.CutPrefix(line, "bothy: error: "); ok {
			message = text
		}
		if text, ok := strings.CutPrefix(line, "bothy: hint: "); ok {
			hint = text
		}
	}
	e := spec.Errorf(spec.ClassOf(exit.ExitCode()), "%s", message)
	e.Op, e.Hint = "bothy "+what, hint
	return e
}
