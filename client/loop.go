package client

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// These are the three calls of programs that run agents in loops: a sandbox for each loop and tool,
// commands in it, and the removal of all sandboxes of the loop.

const loopPrefix = "loop-"

// CreateLoopSandbox returns the sandbox of a loop for a tool, an agent's name, in a directory:
// loop-ID-TOOL. Calling it again returns the same sandbox, so that a step can be repeated. If another
// sandbox has that name, the error is spec.ErrConflict.
func (c *Client) CreateLoopSandbox(ctx context.Context, loopID, tool, workDir string) (sandbox string, err error) {
	if loopID == "" || tool == "" {
		return "", spec.Errorf(spec.ErrUsage, "a loop's sandbox needs the loop's id and a tool")
	}
	name := loopPrefix + loopID + "-" + tool
	_, err = c.Create(ctx, Sandbox{Name: name, Agent: tool, Workspaces: []string{workDir}})
	if err == nil || !errors.Is(err, spec.ErrConflict) {
		return name, err
	}
	list, lerr := c.List(ctx)
	if lerr != nil {
		return "", lerr
	}
	dir, rerr := realDir(workDir)
	for _, s := range list {
		if rerr == nil && s.Name == name && len(s.Workspaces) == 1 && s.Workspaces[0] == dir && slices.Contains(namesOf(s.Agent), tool) {
			return name, nil
		}
	}
	return "", err
}

func realDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// ExecOptions are the options of ExecInSandbox.
type ExecOptions struct {
	Env     map[string]string
	WorkDir string
	Timeout time.Duration
}

// ExecInSandbox runs a command in a sandbox and returns its exit code and output. It returns an error
// only if the command could not run. After a timeout, the exit code is spec.ExitTimeout, and no process
// of the command is left.
func (c *Client) ExecInSandbox(ctx context.Context, sandbox string, command []string, o ExecOptions) (exitCode int, output string, err error) {
	r, err := c.Exec(ctx, sandbox, Command{Args: command, Env: o.Env, Workdir: o.WorkDir, Timeout: o.Timeout})
	if errors.Is(err, spec.ErrTimeout) {
		return r.ExitCode, r.Output, nil
	}
	return r.ExitCode, r.Output, err
}

// DestroyLoopSandbox removes all sandboxes of a loop. A loop without sandboxes is not an error.
func (c *Client) DestroyLoopSandbox(ctx context.Context, loopID string) error {
	if loopID == "" {
		return spec.Errorf(spec.ErrUsage, "whose sandboxes to remove is not said")
	}
	list, err := c.List(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range list {
		// The text after the loop's ID must be a tool: loop 1-a's sandboxes do not belong to loop 1.
		tool, ok := strings.CutPrefix(s.Name, loopPrefix+loopID+"-")
		if !ok || !slices.Contains(namesOf(s.Agent), tool) {
			continue
		}
		if err := c.Remove(ctx, s.Name); err != nil && !errors.Is(err, spec.ErrNotFound) {
			errs = append(errs, fmt.Errorf("remove %s: %w", s.Name, err))
		}
	}
	return errors.Join(errs...)
}
