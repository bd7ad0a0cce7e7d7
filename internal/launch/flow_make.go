package launch

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runner"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// StartFlow makes a run of a flow and its sandboxes, and carries it on to its end. It may return an error beside
// the end of the run: the draft of a flow could not be written, or an answer could not be heard.
func (l *Launcher) StartFlow(ctx context.Context, req FlowRequest) (*Ended, error) {
	pl, err := l.PlanFlow(req)
	if err != nil {
		return nil, err
	}
	l.noteAll(pl.Notes)
	if err := l.settleInto(ctx, pl); err != nil {
		return nil, err
	}
	m := &flowMaking{Launcher: l, plan: pl, id: run.NewID(pl.nameSource(), time.Now()), made: map[string]*spec.Sandbox{}}
	if err := m.makeRun(ctx); err != nil {
		m.removeMade(ctx)
		return nil, err
	}
	defer m.host.Close()
	names := map[string]string{}
	for of, sb := range m.made {
		names[of] = sb.Name
	}
	ready, err := m.host.Append(run.Ready, run.ActorHost, flow.Made{Sandboxes: names})
	if err != nil {
		return nil, err
	}
	p := &pl.Plan
	if p.Flow.Parallel > 1 && p.Most() > 1 && !p.Beside() {
		l.Note("the flow says parallel: %d, and nothing of it could be done side by side%s", p.Flow.Parallel, pl.inTheWay())
	}
	l.Note("run %s in %s; from another terminal: bothy flow watch|status|log|stop %s", m.id, m.run.Dir(), m.id)
	return l.carryFlow(ctx, p, m.run, m.host, runner.NewFlow(l, l.Engine, l.snapshots(), m.made, pl.Agents), []run.Event{ready})
}

// flowMaking makes a run and its sandboxes.
type flowMaking struct {
	*Launcher
	plan *FlowPlan
	id   string

	made map[string]*spec.Sandbox // by the names of their rooms
	run  *run.Run
	host *run.Host
}

// makeRun makes the run, and then its sandboxes. Their IDs are recorded before they exist, so a crash
// leaves no orphan.
func (m *flowMaking) makeRun(ctx context.Context) error {
	p := &m.plan.Plan
	rooms := p.Rooms()
	copies := hasCopies(rooms)
	if err := m.choosePoint(ctx, &m.plan.fork); err != nil {
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
		sb, err := m.makeRoom(ctx, room, copies)
		if err != nil {
			return err
		}
		m.made[room.Name] = sb
		if room.Copy {
			if err := m.fillCopy(ctx, &m.plan.fork, sb); err != nil {
				return err
			}
		}
	}
	return nil
}

// hasCopies reports whether any of the rooms is a copy.
func hasCopies(rooms []flowplan.Room) bool {
	return slices.ContainsFunc(rooms, func(r flowplan.Room) bool { return r.Copy })
}

// requestFor returns the request for one of the sandboxes. copies says that some of them work on copies.
func (m *flowMaking) requestFor(room flowplan.Room, copies bool) spec.Request {
	req := m.plan.Sandbox
	req.Agent, req.Name = room.Agent, m.called(room)
	if room.Agent == flowplan.Shell {
		req.Version, req.Config = "", nil
	}
	switch {
	case room.Copy:
		req.WorkspaceMode = spec.WorkspaceReview
	case copies:
		req.Workspaces = nil
	}
	return req
}

// makeRoom makes one of the sandboxes. Before the first one it makes the run.
func (m *flowMaking) makeRoom(ctx context.Context, room flowplan.Room, copies bool) (*spec.Sandbox, error) {
	return m.makeSandbox(ctx, run.Flows, m.requestFor(room, copies), func(sb *spec.Sandbox) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := m.plan.shares(sb); err != nil {
			return err
		}
		if err := writesInto(m.plan.Into, sb); err != nil {
			return err
		}
		sb.ID = m.plan.Plan.Sandboxes[room.Name]
		if m.run != nil {
			return nil
		}
		if len(sb.Workspaces) > 0 {
			m.plan.Plan.Directory = sb.Workspaces[0].Source
		}
		err := m.create()
		sb.Name = m.called(room) // with the ID that the run got
		return err
	})
}

// called returns the name of one of the sandboxes.
func (m *flowMaking) called(room flowplan.Room) string {
	return cmp.Or(m.plan.Sandbox.Name, m.id) + "-" + room.Name
}

// shares refuses volumes that several sandboxes would write to at once.
func (pl *FlowPlan) shares(sb *spec.Sandbox) error {
	for _, v := range sb.Volumes {
		if !v.ReadOnly && pl.Plan.Beside() {
			return spec.Errorf(spec.ErrUsage, "steps that are done side by side would write to %s at once", v.Source).
				WithHint("share it read-only (:ro), or have one step be done at a time: %s 1", spec.Option("parallel"))
		}
	}
	return nil
}

// create records the run.
func (m *flowMaking) create() (err error) {
	rooms := m.plan.Plan.Rooms()
	m.run, err = run.Named(m.plan.nameSource(), time.Now(), func(id string) (*run.Run, error) {
		m.id = id
		if m.plan.Sandbox.Name == "" {
			if err := m.checkNames(rooms); err != nil {
				return nil, err
			}
		}
		return run.CreateFlow(m.Engine.Store.Runs(), m.plan.Into, id, &m.plan.Plan, m.fillInputs)
	})
	if err == nil {
		m.host, _, err = m.run.Host()
	}
	return err
}

// fillInputs puts the inputs into the run's directory. It checks again that no sandbox writes there,
// because one may have been created since the first check. None has been started by now.
func (m *flowMaking) fillInputs(dir string) error {
	if m.plan.Into != "" {
		if err := m.Engine.Directories().CheckRunFiles(m.plan.Into); err != nil {
			return err
		}
	}
	return flow.Fill(dir, m.plan.Given)
}

// checkNames checks that the names of the flow's sandboxes are free. Sandboxes of a removed run may still
// have them.
func (m *flowMaking) checkNames(rooms []flowplan.Room) error {
	for _, room := range rooms {
		_, err := m.Engine.Find(m.called(room))
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
	for _, sb := range m.made {
		_ = m.Engine.Remove(ctx, sb, true)
	}
	if m.host != nil {
		m.host.Close() // a held run could not be removed
	}
	if m.run != nil {
		_ = m.run.Remove()
	}
}
