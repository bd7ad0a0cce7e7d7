package runs

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// flowMaking makes a run and its sandboxes.
type flowMaking struct {
	app    *app
	engine *engine.Engine
	flags  *flowFlags
	agents map[string]*spec.Agent
	paths  []string
	// request is the request for each sandbox, without its agent, name and paths.
	request spec.Request
	id      string

	IsMade map[string]*spec.Sandbox
	run    *run.Run
	host   *run.Host
}

// makeRun makes the run, and then its sandboxes. Their IDs are recorded before they exist, so a crash
// leaves no orphan.
func (m *flowMaking) makeRun(ctx context.Context, cmd *cobra.Command) error {
	p := &m.flags.plan
	m.IsMade = map[string]*spec.Sandbox{}
	if err := m.branch(); err != nil {
		return err
	}
	if len(m.paths) > 0 {
		p.Directory = m.paths[0] // resolved when a sandbox exists
	}
	rooms := p.Rooms()
	if err := m.checkMode(rooms); err != nil {
		return err
	}
	copies := slices.ContainsFunc(rooms, func(r flowplan.Room) bool { return r.Copy })
	if err := m.settle(ctx, copies); err != nil {
		return err
	}
	if len(rooms) == 0 {
		p.Directory = "" // nothing works on it
		return m.create()
	}
	for _, room := range rooms {
		p.Sandboxes[room.Name] = store.NewID()
	}
	slices.SortStableFunc(rooms, func(a, b flowplan.Room) int { // first the sandboxes with PATH, to resolve it
		switch {
		case a.Copy == b.Copy:
			return 0
		case a.Copy:
			return -1
		}
		return 1
	})
	for _, room := range rooms {
		sb, err := m.makeSandbox(ctx, cmd, room, copies)
		if err != nil {
			return err
		}
		m.IsMade[room.Name] = sb
		if room.Copy {
			if err := m.continues(ctx, sb); err != nil {
				return err
			}
		}
	}
	return nil
}

// makeSandbox makes one of the sandboxes. Before the first one it makes the run.
func (m *flowMaking) makeSandbox(ctx context.Context, cmd *cobra.Command, room flowplan.Room, copies bool) (*spec.Sandbox, error) {
	req := m.request
	req.Agent, req.Name, req.Workspaces = room.Agent, m.called(room), m.paths // which a base may have brought
	if room.Agent == flowplan.Shell {
		req.Version, req.Config = "", nil
	}
	switch {
	case room.Copy:
		req.WorkspaceMode = spec.WorkspaceReview
	case copies:
		req.Workspaces = nil
	}
	return m.app.MakeSandbox(ctx, cmd, m.engine, req, func(sb *spec.Sandbox) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := m.shares(sb); err != nil {
			return err
		}
		if err := writesInto(m.flags.into, sb); err != nil {
			return err
		}
		sb.ID = m.flags.plan.Sandboxes[room.Name]
		if m.run != nil {
			return nil
		}
		if len(sb.Workspaces) > 0 {
			m.flags.plan.Directory = sb.Workspaces[0].Source
		}
		err := m.create()
		sb.Name = m.called(room) // with the ID that the run got
		return err
	})
}

// called returns the name of one of the sandboxes.
func (m *flowMaking) called(room flowplan.Room) string {
	return cmp.Or(m.flags.Name, m.id) + "-" + room.Name
}

// checkMode refuses ways to work on PATH that do not fit the flow's sandboxes.
func (m *flowMaking) checkMode(rooms []flowplan.Room) error {
	var names []string
	copies := false
	for _, r := range rooms {
		names, copies = append(names, r.Name), copies || r.Copy
	}
	switch {
	case copies && len(m.paths) == 0:
		return spec.Errorf(spec.ErrUsage, "the flow works on copies of a directory, and there is none").WithHint("name it behind the file")
	case copies && m.flags.Mode != spec.WorkspaceLive:
		return spec.Errorf(spec.ErrUsage, "--workspace %s: the flow works on copies, which wait for bothy diff and bothy apply", m.flags.Mode).WithHint("leave it out")
	case m.flags.Mode != spec.WorkspaceLive && len(m.paths) > 0 && m.flags.plan.Fresh():
		return spec.Errorf(spec.ErrUsage, "--workspace %s: steps with fresh have a new sandbox each time, and would see nothing of what waits in another", m.flags.Mode).
			WithHint("give a copy of the project as PATH")
	case m.flags.plan.Parallel > 1 && !m.flags.plan.Beside():
		return spec.Errorf(spec.ErrUsage, "--parallel %d: nothing of this flow could be done side by side%s", m.flags.plan.Parallel, m.inTheWay()).
			WithHint("leave it out")
	case len(rooms) > 1 && m.flags.Mode != spec.WorkspaceLive && len(m.paths) > 0:
		return spec.Errorf(spec.ErrUsage, "--workspace %s: each of %s has a sandbox of its own, and none would see what the others change", m.flags.Mode, strings.Join(names, ", ")).
			WithHint("give a copy of the project as PATH")
	}
	return nil
}

// inTheWay says why steps cannot run in parallel.
func (m *flowMaking) inTheWay() string {
	if len(m.paths) == 0 {
		return ": each step needs the one before it"
	}
	return ": what works on PATH itself is done one step at a time, but for commands with fresh; see docs/guide/flow-runs.md"
}

// shares refuses volumes that several sandboxes would write to at once.
func (m *flowMaking) shares(sb *spec.Sandbox) error {
	for _, v := range sb.Volumes {
		if !v.ReadOnly && m.flags.plan.Beside() {
			return spec.Errorf(spec.ErrUsage, "steps that are done side by side would write to %s at once", v.Source).
				WithHint("share it read-only (:ro), or have one step be done at a time: --parallel 1")
		}
	}
	return nil
}

// create records the run.
func (m *flowMaking) create() (err error) {
	slices.Sort(m.flags.plan.Files)
	rooms := m.flags.plan.Rooms()
	m.run, err = run.Named(m.flags.nameSource(), time.Now(), func(id string) (*run.Run, error) {
		m.id = id
		if m.flags.Name == "" {
			if err := m.checkNames(rooms); err != nil {
				return nil, err
			}
		}
		return run.CreateFlow(m.engine.Store.Runs(), m.flags.into, id, &m.flags.plan, m.fillInputs)
	})
	if err == nil {
		m.host, _, err = m.run.Host()
	}
	return err
}

// fillInputs puts the inputs into the run's directory. It checks again that no sandbox writes there,
// because one may have been created since the first check. None has been started by now.
func (m *flowMaking) fillInputs(dir string) error {
	if m.flags.into != "" {
		if err := m.engine.Directories().CheckRunFiles(m.flags.into); err != nil {
			return err
		}
	}
	return flow.Fill(dir, m.flags.given)
}

// checkNames checks that the names of the flow's sandboxes are free. Sandboxes of a removed run may still
// have them.
func (m *flowMaking) checkNames(rooms []flowplan.Room) error {
	for _, room := range rooms {
		_, err := m.engine.Find(m.called(room))
		switch {
		case err == nil:
			return spec.Errorf(spec.ErrConflict, "there is a sandbox %s already", m.called(room))
		case !errors.Is(err, spec.ErrNotFound):
			return err
		}
	}
	return nil
}

// removeMade removes everything that was made, since nothing could be resumed.
func (m *flowMaking) removeMade(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	for _, sb := range m.IsMade {
		_ = m.engine.Remove(ctx, sb, true)
	}
	if m.host != nil {
		m.host.Close() // a held run could not be removed
	}
	if m.run != nil {
		_ = m.run.Remove()
	}
}
