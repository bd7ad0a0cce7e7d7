package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/app"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/headless"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/program"
	"github.com/bothy-dev/bothy/internal/provision"
	"github.com/bothy-dev/bothy/internal/settings"
	"github.com/bothy-dev/bothy/internal/setup"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/spec"
)

// opened is an open state directory, and the programs that its sandboxes run on.
type opened struct {
	*engine.Engine
	settings settings.Settings
	programs *program.Installed
}

// openState opens the state directory. Notes go to note, too, if it is not nil.
func (c *Client) openState(ctx context.Context, note func(string)) (*opened, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	state := sync.OnceValues(func() (*store.Store, error) { return app.OpenStore(c.StateDir) })
	installed, err := c.programs(state)
	if err != nil {
		return nil, err
	}
	s, err := settings.Load(func(text string) { c.passNote("%s", text) })
	if err != nil {
		return nil, err
	}
	st, err := state()
	if err != nil {
		return nil, err
	}
	e := app.OpenIn(st, app.Options{Settings: s, Note: func(text string) {
		c.passNote("%s", text)
		if note != nil {
			note(term.Sanitize(text))
		}
	}})
	return &opened{e, s, installed}, nil
}

// programs returns the installed programs, unless they may be of another build, or written by a sandbox.
// It opens the state directory only to look for the latter.
func (c *Client) programs(state func() (*store.Store, error)) (*program.Installed, error) {
	installed, err := program.UseInstalled(c.Programs, func(found *program.Installed) error { return c.accept(found, state) })
	if err == nil && installed.Unproven != "" {
		c.passNote("warning: %s may be of another build than this program: %s", installed.Bothy(), installed.Unproven)
	}
	return installed, err
}

// accept decides whether programs are used. None of them has been started yet, and none is for this.
func (c *Client) accept(installed *program.Installed, state func() (*store.Store, error)) error {
	switch {
	case installed.Unproven == "":
	case !c.AcceptUnprovenBuild:
		return spec.Errorf(spec.ErrSandbox, "%s is not used, because it may be of another build than this program: %s", installed.Bothy(), installed.Unproven).
			WithHint("build both from one version of the module, without a directory in its place, and with -buildvcs=true in a clone; or set AcceptUnprovenBuild in client.Client")
	case c.Notes == nil:
		return spec.Errorf(spec.ErrUsage, "AcceptUnprovenBuild needs Notes, so that its warning is read")
	}
	if installed.Named && !installed.Changed {
		return nil
	}
	st, err := state()
	if err != nil {
		return err
	}
	guard, err := hostpath.Load(st)
	if err != nil {
		return err
	}
	return refuseWritten(guard, installed)
}

// refuseWritten refuses programs that a sandbox may have written.
func refuseWritten(guard *hostpath.Guard, installed *program.Installed) error {
	for _, path := range installed.Paths() {
		if !guard.WrittenAt(path) {
			continue
		}
		if installed.Named {
			return spec.Errorf(spec.ErrDenied, "%s was replaced while this process used it, and is not started: a sandbox may have written it, or this cannot be told", path).
				WithHint("if it was not a sandbox, restart this program; install bothy in a local directory that no sandbox writes to")
		}
		return spec.Errorf(spec.ErrDenied, "%s, which was found without a name, is not started: a sandbox may have written it, or this cannot be told", path).
			WithHint("install bothy in a local directory that no sandbox writes to, or name its directory: Client.Programs")
	}
	return nil
}

// refuseToShare refuses a sandbox that could write the programs that this client finds without a name. The
// next call would refuse them.
func refuseToShare(e *engine.Engine, sb *spec.Sandbox, installed *program.Installed) error {
	if installed.Named {
		return nil
	}
	guard, err := e.Paths()
	if err != nil {
		return err
	}
	written := slices.Clone(guard.Written())
	for _, m := range hostpath.Live(sb) {
		written = append(written, hostpath.Directory{Path: m.Source})
	}
	guard = hostpath.NewGuard(written)
	for _, path := range installed.Paths() {
		if guard.WrittenAt(path) {
			return spec.Errorf(spec.ErrDenied, "the sandbox is not created: it could write %s, which this client starts", path).
				WithHint("share another directory or share it with :ro, or install bothy elsewhere, or name its directory: Client.Programs")
		}
	}
	return nil
}

// passNote passes a note on. It may quote what a file of a project or a sandbox says.
func (c *Client) passNote(format string, args ...any) {
	if c.Notes != nil {
		c.Notes(term.Sanitize(fmt.Sprintf(format, args...)))
	}
}

// findSandbox opens the state directory and finds a sandbox.
func (c *Client) findSandbox(ctx context.Context, name string, note func(string)) (*engine.Engine, *spec.Sandbox, error) {
	e, err := c.openState(ctx, note)
	if err != nil {
		return nil, nil, err
	}
	sb, err := e.Find(name)
	return e.Engine, sb, err
}

func (c *Client) create(ctx context.Context, req spec.Request) (*spec.Sandbox, error) {
	e, err := c.openState(ctx, nil)
	if err != nil {
		return nil, err
	}
	p := app.Provisioner(e.Engine, e.settings, app.Quiet(c.passNote))
	plan, err := p.Plan(req, false)
	if err == nil {
		err = refuseToShare(e.Engine, plan.Sandbox, e.programs)
	}
	if err != nil {
		return nil, err
	}
	for _, text := range plan.Notes {
		c.passNote("%s", text)
	}
	sb, err := p.Create(ctx, plan, nil)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		return nil, err
	}
	for _, g := range plan.Git {
		c.passNote("%s; to make a sandbox in which it works: %s", g.Why, g.Command("create", sb.Agent))
	}
	return sb, nil
}

func (c *Client) listSandboxes(ctx context.Context) ([]Listed, error) {
	e, err := c.openState(ctx, nil)
	if err != nil {
		return nil, err
	}
	all, err := e.List()
	if err != nil {
		return nil, err
	}
	list := make([]Listed, 0, len(all))
	for _, i := range all {
		l := Listed{Name: i.Spec.Name, ID: i.Spec.ID, Agent: i.Spec.Agent, Status: string(i.Status.State), Workspaces: []string{}}
		if i.Spec.Broken != "" {
			l.Status = "broken"
		}
		for _, m := range i.Spec.Workspaces {
			if m.ReadOnly {
				m.Source += ":ro"
			}
			l.Workspaces = append(l.Workspaces, m.Source)
		}
		list = append(list, l)
	}
	return list, nil
}

func (c *Client) inspect(ctx context.Context, name string) (*spec.Sandbox, spec.Status, error) {
	e, sb, err := c.findSandbox(ctx, name, nil)
	if err != nil {
		return nil, spec.Status{}, err
	}
	return sb, e.Status(sb), nil
}

// stopGrace is how long programs get to end when a sandbox is stopped.
const stopGrace = 2 * time.Second

func (c *Client) stopSandbox(ctx context.Context, name string) error {
	e, sb, err := c.findSandbox(ctx, name, nil)
	if err != nil {
		return err
	}
	return e.Stop(ctx, sb, stopGrace)
}

func (c *Client) remove(ctx context.Context, name string) error {
	e, sb, err := c.findSandbox(ctx, name, nil)
	if err != nil {
		return err
	}
	return e.Remove(ctx, sb, true)
}

func (c *Client) execCommand(ctx context.Context, sandbox string, command *Command) (Result, error) {
	var told notes
	status, err := c.runCommand(ctx, sandbox, command, &told)
	if cut, ok := errors.AsType[*headless.CutShort](err); ok {
		err = cut.Why
	}
	if err != nil {
		status = spec.ExitCode(err)
	}
	return Result{ExitCode: status, Notes: told.collected()}, err
}

// runCommand runs a command and returns its exit code.
func (c *Client) runCommand(ctx context.Context, sandbox string, command *Command, told *notes) (int, error) {
	vars, err := environment(command.Env)
	if err != nil {
		return 0, err
	}
	switch {
	case len(command.Args) == 0:
		return 0, spec.Errorf(spec.ErrUsage, "no command is given")
	case command.Timeout < 0:
		return 0, spec.Errorf(spec.ErrUsage, "the timeout %s is negative", command.Timeout)
	}
	e, err := c.openState(ctx, told.add)
	if err != nil {
		return 0, err
	}
	sb, err := e.Find(sandbox)
	if err != nil {
		return 0, err
	}
	q := wire.Command{Args: command.Args, Env: vars, Dir: command.Workdir, User: command.User, Timeout: spec.Duration(command.Timeout)}
	p := app.Provisioner(e.Engine, e.settings, execWatcher{app.Quiet(c.passNote), told})
	in, err := p.Enter(ctx, sb, &q, command.SkipSetUp)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	in.Note = func(text string) { told.add(term.Sanitize(text)) }
	return in.Exec(ctx, q, headless.Streams{In: command.Stdin, Out: command.Stdout, Err: command.Stderr})
}

// execWatcher passes notes on, and collects them for the result of a command. The output of a set-up is passed on
// alone.
type execWatcher struct {
	app.Quiet
	told *notes
}

// Note implements [provision.Watcher].
func (w execWatcher) Note(format string, args ...any) {
	w.Quiet.Note(format, args...)
	w.told.add(term.Sanitize(fmt.Sprintf(format, args...)))
}

// SettingUp implements [provision.Watcher].
func (w execWatcher) SettingUp() setup.Viewer {
	v := w.Quiet.SettingUp()
	v.Note = w.Note
	return v
}

// notes collects notes from several goroutines.
type notes struct {
	mu   sync.Mutex
	list []string
}

func (n *notes) add(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, text)
}

func (n *notes) collected() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.list)
}

// namesOf returns all names of an agent: an earlier call may have used another one.
func namesOf(name string) []string {
	a, err := provision.Agents().Called(name)
	if err != nil {
		return []string{name} // an agent without a description has only this name
	}
	return append(slices.Clone(a.Aliases), name)
}
