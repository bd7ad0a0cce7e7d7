package runstate

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runner"
	"github.com/bothy-dev/bothy/internal/snapshot"
	"github.com/bothy-dev/bothy/spec"
)

// Flow is an existing flow.
type Flow struct {
	Record
	Plan  flowplan.Plan
	State *flow.State
}

func (l *Flow) Progress() State { return l.State }

func (l *Flow) Result() *run.Result { return &l.State.Result }

// ReadFlow reads the state of a flow. A flow that is recorded as running but has no host was
// interrupted.
func ReadFlow(e *engine.Engine, r *run.Run) (*Flow, error) {
	l := &Flow{Record: Record{Engine: e, Run: r}}
	mail, err := l.readRecord(&l.Plan, l.Fold)
	if err != nil {
		return nil, err
	}
	l.Directory = l.Plan.Directory
	if !l.Hosted && r.Gone() {
		l.State.Result = run.Result(flow.Removed(r))
		return l, nil
	}
	if err := r.Away(); err != nil {
		l.State.Detail = err.Error()
	}
	l.rewriteRecord()
	l.State.Said(mail, len(l.Events))
	l.noteCrash(&l.State.Result, l.IsMade())
	return l, nil
}

// rewriteRecord rewrites the record of an orphaned flow if its last process was killed before it wrote one.
// A stale record misleads people who read the file. Bothy's own answers do not depend on it, so a
// failed write is not an error.
func (l *Flow) rewriteRecord() {
	if l.Hosted || flow.Recorded(l.Run, l.State) {
		return
	}
	h, events, err := l.Run.Host()
	if err != nil { // another process took it meanwhile
		return
	}
	defer h.Close()
	_ = flow.Record(&l.Plan, l.Run, events)
}

// Fold computes the state from events.
func (l *Flow) Fold(events []run.Event) (err error) {
	if l.Raised, err = run.Raises(events); err == nil {
		l.Plan.Raise(l.Raised)
		l.State, err = flow.Fold(&l.Plan, events)
	}
	return err
}

// CanGoOn reports whether a flow stopped at a limit that was raised since.
func (l *Flow) CanGoOn() bool { return l.State.Raisable() && l.State.Reached() == nil }

// FlowView is the state of a flow in JSON.
type FlowView struct {
	Head
	Directory string `json:"run_directory"`
	*flow.State
	Until    time.Time           `json:"until,omitzero"`
	Elements []flow.ElementState `json:"elements,omitempty"` // of lists
	Plan     *flowplan.Plan      `json:"plan"`
}

func (l *Flow) View() any {
	return FlowView{Head: headOf(l), Directory: l.Run.Dir(), State: l.State, Until: DelayOf(l.State).Until, Elements: l.State.Elements(), Plan: &l.Plan}
}

// lacksSandbox reports whether a sandbox was removed that a flow needs to resume.
func lacksSandbox(e *engine.Engine, p *flowplan.Plan, s *flow.State) bool {
	return s.Ready && s.WorkLeft() && slices.ContainsFunc(slices.Collect(maps.Values(p.Sandboxes)), func(id string) bool {
		_, err := e.Find(id)
		return errors.Is(err, spec.ErrNotFound) && !e.Away().Has(id)
	})
}

// Standing returns the result that people see. Some steps may run while others wait for models. If
// none runs and a person is asked something, that comes first.
func (l *Flow) Standing() run.Result {
	s := l.State
	if l.AtWork() > 0 {
		return s.Result
	}
	r := standingOf(s, s.Result)
	if asks, _ := s.Asks(); asks != "" && DelayOf(s).For != "" {
		r.Reason = asks
	}
	return r
}

// CheckOpen refuses to talk to a flow that has ended for good.
func (l *Flow) CheckOpen() error {
	if err := l.Run.Away(); err != nil && !l.Hosted {
		return err
	}
	if !l.State.Final() {
		return nil
	}
	if l.State.Reason == flow.ReasonRemoved {
		return FilesGone(l)
	}
	err := spec.Errorf(spec.ErrConflict, "the run %s has ended: %s", l.Run.ID, l.State.Status)
	if l.State.Raisable() {
		return err.WithHint("%s goes on, with more than is used", RaiseCommand(run.Flows, l.Run.ID, l.State.Reason))
	}
	return err.WithHint("bothy flow run begins another one")
}

// CheckUndone refuses to stop a completed flow, because it could not be resumed.
func (l *Flow) CheckUndone() error {
	if l.State.Over() {
		return spec.Errorf(spec.ErrConflict, "the run %s is completed", l.Run.ID)
	}
	return nil
}

// UsedSandboxes returns the sandboxes of a flow. If it was never ready, nothing ran in them for it.
func (l *Flow) UsedSandboxes() []string {
	if !l.State.Ready {
		return nil
	}
	return slices.Collect(maps.Values(l.Plan.Sandboxes))
}

// NeededSandboxes returns the sandboxes of a flow, unless it is over for good.
func (l *Flow) NeededSandboxes() []string {
	if !l.Hosted && l.State.Over() && !l.State.Raisable() {
		return nil
	}
	return slices.Collect(maps.Values(l.Plan.Sandboxes))
}

// cancelOrphan ends an orphaned flow.
func (l *Flow) cancelOrphan(h *run.Host, events []run.Event) (err error) {
	rooms := map[string]*spec.Sandbox{}
	for room, id := range l.Plan.Sandboxes {
		if sb, err := l.Engine.Find(id); err == nil {
			rooms[room] = sb
		}
	}
	c := &flow.Carrier{Plan: &l.Plan, Run: l.Run, Host: h, Runner: runner.NewFlow(nil, l.Engine, snapshot.New(l.Engine), rooms, nil)}
	l.State, err = c.Stop(context.Background(), events, Actor())
	return err
}

// TidyUp removes the sandboxes of an ended flow, if its plan says so.
func (l *Flow) TidyUp(ctx context.Context) (kept []string, err error) {
	if l.State.Ready {
		return nil, RemoveEnded(ctx, l.Engine, &l.Plan, l.State)
	}
	if !l.Plan.Remove {
		return nil, nil
	}
	return l.RemoveOwned(ctx)
}

// RemoveOwned removes the sandboxes of a flow, which hold copies of the run's files. Sandboxes that work on
// host files are removed only if the user asked for that, and copies with waiting changes never. If
// the flow was never ready, it removes all its sandboxes except those started since.
func (l *Flow) RemoveOwned(ctx context.Context) (kept []string, err error) {
	switch {
	case !l.State.Ready:
		return removeUntouched(l.Engine, slices.Sorted(maps.Values(l.Plan.Sandboxes))...)
	case l.ownsSandboxes():
		return nil, removeAll(ctx, l.Engine, &l.Plan)
	}
	return nil, nil
}

// removeAll removes the sandboxes of a flow, including those put away. It keeps sandboxes with
// changes that wait for a person.
func removeAll(ctx context.Context, e *engine.Engine, p *flowplan.Plan) error {
	return eachPassing(ctx, p, func(ctx context.Context, id string) error {
		sb, err := e.Find(id)
		if err == nil {
			err = e.Remove(ctx, sb, true)
		}
		if err == nil || errors.Is(err, spec.ErrNotFound) {
			err = e.Away().Forget(id)
		}
		return err
	})
}

// ownsSandboxes reports whether removing a run removes its sandboxes.
func (l *Flow) ownsSandboxes() bool {
	return l.Plan.Directory == "" || l.Plan.Remove || len(l.Plan.Copies()) > 0
}

// NextCommand returns the command for a person to run next, whether or not its sandboxes are there.
func (l *Flow) NextCommand() string {
	v := Summary{ID: l.Run.ID, Kind: run.Flows, Status: l.State.Status, Reason: l.State.Reason, Detail: l.State.Detail, Hosted: l.Hosted}
	if l.Hosted {
		v.asks, _ = l.State.Asks()
	}
	return v.nextCommand()
}

// NextAtEnd returns the command for a person to run after a process has carried a flow to this state. lost
// reports that a sandbox was removed without which the flow cannot be resumed.
func NextAtEnd(e *engine.Engine, r *run.Run, p *flowplan.Plan, s *flow.State) (next string, lost bool) {
	v := Summary{ID: r.ID, Kind: r.Kind, Status: s.Status, Reason: s.Reason, gone: lacksSandbox(e, p, s)}
	return v.nextCommand(), v.lacksSandbox()
}

// CanStop reports whether a flow can be stopped.
func (l *Flow) CanStop() bool { return !l.State.Over() }

// CanResume reports whether a flow can be resumed: no process runs it, and it needs no answer first.
func (l *Flow) CanResume() bool {
	asks := l.State.Status == run.Waiting && len(l.State.Questions()) > 0
	return !l.Hosted && !l.State.Over() && !asks && l.State.Detail != cutInMaking
}

// WaitsFor reports whether a flow asks a person for an approval, or else a question.
func (l *Flow) WaitsFor(approval bool) bool {
	return !l.State.Over() && slices.ContainsFunc(l.State.Questions(), func(st *flow.StepState) bool { return l.State.Approves(st) == approval })
}

func (l *Flow) IsMade() bool { return l.State.Ready || len(l.Plan.Sandboxes) == 0 }

func (l *Flow) IsUnfinished() bool { return l.State.Draft() != "" }

// CanRaise reports whether a flow could be resumed with other limits.
func (l *Flow) CanRaise() bool {
	return l.CanResume() || !l.Hosted && l.State.Raisable()
}

// RaiseLimits changes the limits in the plan, if the flow can be resumed within them.
func (l *Flow) RaiseLimits(limits *run.Limits) error {
	if l.State.Over() && !l.State.Raisable() {
		return cmp.Or(l.CheckOpen(), l.CheckUndone())
	}
	l.Plan.Raise(limits)
	if err := l.Plan.Limits.Check(); err != nil {
		return err
	}
	if end := l.State.Reached(); end != nil {
		return tooLow(l.Run.Kind, l.Run.ID, end.Reason, end.Detail)
	}
	return nil
}

// Workplaces returns the sandboxes of a flow to resume.
func (l *Flow) Workplaces() (map[string]*spec.Sandbox, error) {
	made := map[string]*spec.Sandbox{}
	for name, id := range l.Plan.Sandboxes {
		sb, err := l.Engine.Find(id)
		if errors.Is(err, spec.ErrNotFound) {
			return nil, spec.Errorf(spec.ErrNotFound, "the sandbox %s of the run %s is not there", l.State.Sandboxes[name], l.Run.ID).
				WithHint("its outputs are in %s; bothy flow run begins anew", l.Run.Dir())
		}
		if err != nil {
			return nil, err
		}
		made[name] = sb
	}
	return made, nil
}

// AtWork counts the steps that run now.
func (l *Flow) AtWork() (count int) {
	for _, st := range l.State.Steps {
		if st.Status == run.Running && l.Hosted {
			count++
		}
	}
	return count
}
