// Package client makes sandboxes and runs commands in them, from Go programs.
//
// It does in this process what the bothy command does, and needs no daemon. Sandboxes are those that
// "bothy ls" shows. Parts of a sandbox are processes of their own, which are programs of Bothy: bothy,
// bothy-keeper, bothy-guest and, for Dockerfiles, bothy-build. They must be installed, and of the version
// of this module that the Go program is built with:
//
//	CGO_ENABLED=0 go install github.com/bothy-dev/bothy/cmd/...@VERSION
//
// A sandbox and its programs outlive the Go program. What the bothy command takes from its environment
// (HOME, BOTHY_HOME, XDG_CONFIG_HOME, PATH, proxies, variables with credentials) this package takes from
// the environment of the Go program, at each call. When it starts a sandbox, it marks all descriptors of
// the process from 3 on as close-on-exec.
package client

import (
	"context"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// Client makes and uses the sandboxes of one state directory. The zero value uses those of the user. A
// client may be used by several goroutines.
type Client struct {
	// StateDir is where sandboxes are kept. A relative path is beneath the current directory. Default: as for the bothy command, which BOTHY_HOME may say.
	StateDir string
	// Programs is the directory with the bothy command. The other programs are beside it, or in
	// ../libexec/bothy. Default: the first directory of PATH that has it, then the directory of this
	// program, then ../libexec/bothy from there; the error is of class spec.ErrDenied if a sandbox may write
	// to it. All clients of a process use the same programs, which may be installed anew meanwhile.
	Programs string
	// Notes receives what a person should know, one text at a time: why git will not work in a sandbox,
	// which rules have no effect, that a call waits for another process, which settings are wrong. It does
	// not get the progress of downloads, builds and installations. Notes of a command are in Result alone,
	// but for those about the sandbox's start and set-up, which are in both. Each line that a set-up prints is a
	// text that begins with "  | ", and not in Result. A text is one line without control characters. It may be called by several goroutines. Nil: notes are dropped, except for those
	// in Result.
	Notes func(text string)
	// AcceptUnprovenBuild uses installed programs although it is not known whether they are of the
	// version that this program is built with: one of the two does not record its version, as after a
	// replace directive with a directory. With another version, a sandbox may fail in any way. Notes must
	// be set, and says it at each call. Programs that are known to be of another version are never used.
	AcceptUnprovenBuild bool
}

// Sandbox says what to create. An empty field means that the option of "bothy create" with its name is
// left out. For all options see [spec.Request].
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

// Request returns the equivalent request.
func (s *Sandbox) Request() (spec.Request, error) {
	req := spec.Request{
		Name: s.Name, Agent: s.Agent, Workspaces: s.Workspaces, Volumes: s.Volumes, WorkspaceMode: s.WorkspaceMode,
		Template: s.Template, User: s.User, Workdir: s.Workdir, Presets: s.Presets, Allow: s.Allow, Deny: s.Deny,
		Secrets: s.Secrets, Lend: s.Lend, Mock: s.Mock, Budget: s.Budget, Checkpoint: s.Checkpoint,
		Limits: spec.Limits{CPUs: s.CPUs, Pids: int64(s.Pids)}, IdleTimeout: spec.Duration(s.IdleTimeout),
	}
	var err error
	if req.Limits.Memory, err = spec.ParseSize(s.Memory); err != nil {
		return req, spec.Errorf(spec.ErrUsage, "Memory: %w", err)
	}
	if req.Limits.Disk, err = spec.ParseSize(s.Disk); err != nil {
		return req, spec.Errorf(spec.ErrUsage, "Disk: %w", err)
	}
	req.Env, err = environment(s.Env)
	return req, err
}

// environment returns variables as KEY=VALUE.
func environment(vars map[string]string) ([]string, error) {
	var list []string
	for name, value := range vars {
		if strings.Contains(name, "=") {
			return nil, spec.Errorf(spec.ErrUsage, "%q is not the name of a variable", name)
		}
		list = append(list, name+"="+value)
	}
	return list, spec.CheckEnv(list)
}

// Create creates a sandbox and returns its description. The first command in it starts it. The error is
// of class spec.ErrConflict if the name is taken, and of class spec.ErrDenied if the sandbox could write
// the programs of this client and Programs is not set. When ctx ends, Create gives up and leaves no
// sandbox.
func (c *Client) Create(ctx context.Context, s Sandbox) (*spec.Sandbox, error) {
	req, err := s.Request()
	if err != nil {
		return nil, err
	}
	return c.CreateFrom(ctx, req)
}

// CreateFrom is Create for a request, which has all options of "bothy create". It refuses Remove, which is
// an option of "bothy run".
func (c *Client) CreateFrom(ctx context.Context, req spec.Request) (*spec.Sandbox, error) {
	if req.Remove {
		return nil, spec.Errorf(spec.ErrUsage, "Remove is for a sandbox of one command, and CreateFrom runs none").
			WithHint("after the last command call Stop and Remove")
	}
	return c.create(ctx, req)
}

// Listed is an entry in a list of sandboxes.
type Listed struct {
	Name       string   `json:"name"`
	ID         string   `json:"id"`
	Agent      string   `json:"agent"`
	Status     string   `json:"status"` // stopped, starting, running, stopping or broken
	Workspaces []string `json:"workspaces"`
}

// List returns all sandboxes, sorted by name.
func (c *Client) List(ctx context.Context) ([]Listed, error) { return c.listSandboxes(ctx) }

// Inspect returns the description and the status of a sandbox. The error is of class spec.ErrNotFound if
// the sandbox does not exist.
func (c *Client) Inspect(ctx context.Context, name string) (*spec.Sandbox, spec.Status, error) {
	return c.inspect(ctx, name)
}

// Stop stops a sandbox; its files stay. Stopping a stopped sandbox is not an error.
func (c *Client) Stop(ctx context.Context, name string) error { return c.stopSandbox(ctx, name) }

// Remove removes a sandbox with everything that belongs to it, at once. The error is of class
// spec.ErrNotFound if the sandbox does not exist.
func (c *Client) Remove(ctx context.Context, name string) error { return c.remove(ctx, name) }
