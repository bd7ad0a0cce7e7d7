package runs

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/notify"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runner"
	"github.com/bothy-dev/bothy/spec"
)

func flowCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "flow", Aliases: []string{"flows"}, Short: "Carry out steps that need each other, by agents, commands and people",
		Long: "Carries out the steps of a file in sandboxes, in the order in which they need each other.\nWhat a step makes is taken out and judged here, where no sandbox can write. What was\ndone is on the disk before the next step begins.",
	}
	c.AddCommand(flowInitCommand(a), flowRunCommand(a), flowBuildCommand(a), runLsCommand(a, flows), flowShowCommand(a), flowSchemaCommand(a), runStatusCommand(a, flows),
		runWatchCommand(a, flows), flowLogCommand(a), flowApproveCommand(a), flowAnswerCommand(a),
		runStopCommand(a, flows, func(named []string) (AnyRun, error) { return a.flowMeant(named, (*flowRun).ends, "is not over") }), flowResumeCommand(a), runRmCommand(a, flows))
	return c
}

// flowRun is an existing flow.
type flowRun struct {
	runRecord
	plan  flowplan.Plan
	state *flow.State
}

func (l *flowRun) progress() runState { return l.state }

func (l *flowRun) result() *run.Result { return &l.state.Result }

func (l *flowRun) notice() notify.Notice { return l.noticeIn(l.plan.Directory) }

// readFlow reads the state of a flow. A flow that is recorded as running but has no host was
// interrupted.
func readFlow(e *engine.Engine, r *run.Run) (*flowRun, error) {
	l := &flowRun{runRecord: runRecord{engine: e, run: r}}
	mail, err := l.read(&l.plan, l.fold)
	if err != nil {
		return nil, err
	}
	if !l.hosted && r.Gone() {
		l.state.Result = run.Result(flow.Removed(r))
		return l, nil
	}
	if err := r.Away(); err != nil {
		l.state.Detail = err.Error()
	}
	l.rewriteRecord()
	l.state.Said(mail, len(l.events))
	l.noteCrash(&l.state.Result, l.made())
	return l, nil
}

// rewriteRecord rewrites the record of an orphaned flow if its last process was killed before it wrote one.
// A stale record misleads people who read the file. Bothy's own answers do not depend on it, so a
// failed write is not an error.
func (l *flowRun) rewriteRecord() {
	if l.hosted || flow.Recorded(l.run, l.state) {
		return
	}
	h, events, err := l.run.Host()
	if err != nil { // another process took it meanwhile
		return
	}
	defer h.Close()
	_ = flow.Record(&l.plan, l.run, events)
}

// fold computes the state from events.
func (l *flowRun) fold(events []run.Event) (err error) {
	if l.raised, err = run.Raises(events); err == nil {
		l.plan.Raise(l.raised)
		l.state, err = flow.Fold(&l.plan, events)
	}
	return err
}

// more reports whether a flow stopped at a limit that was raised since.
func (l *flowRun) more() bool { return l.state.Raisable() && l.state.Reached() == nil }

// flowView is the state of a flow in JSON.
type flowView struct {
	runHead
	Directory string `json:"run_directory"`
	*flow.State
	Until    time.Time           `json:"until,omitzero"`
	Elements []flow.ElementState `json:"elements,omitempty"` // of lists
	Plan     *flowplan.Plan      `json:"plan"`
}

func (l *flowRun) view() any { return l.viewed() }

func (l *flowRun) viewed() flowView {
	return flowView{runHead: headOf(l), Directory: l.run.Dir(), State: l.state, Until: delayOf(l.state).Until, Elements: l.state.Elements(), Plan: &l.plan}
}

// lacksSandbox reports whether a sandbox was removed that a flow needs to resume.
func lacksSandbox(e *engine.Engine, p *flowplan.Plan, s *flow.State) bool {
	return s.Ready && s.WorkLeft() && slices.ContainsFunc(slices.Collect(maps.Values(p.Sandboxes)), func(id string) bool {
		_, err := e.Find(id)
		return errors.Is(err, spec.ErrNotFound) && !e.Away().Has(id)
	})
}

// standing returns the result that people see. Some steps may run while others wait for models. If
// none runs and a person is asked something, that comes first.
func (l *flowRun) standing() run.Result {
	s := l.state
	if l.atWork() > 0 {
		return s.Result
	}
	r := standingOf(s, s.Result)
	if asks, _ := s.Asks(); asks != "" && delayOf(s).For != "" {
		r.Reason = asks
	}
	return r
}

// open refuses to talk to a flow that has ended for good.
func (l *flowRun) open() error {
	if err := l.run.Away(); err != nil && !l.hosted {
		return err
	}
	if !l.state.Final() {
		return nil
	}
	if l.state.Reason == flow.ReasonRemoved {
		return filesGone(l)
	}
	err := spec.Errorf(spec.ErrConflict, "the run %s has ended: %s", l.run.ID, l.state.Status)
	if l.state.Raisable() {
		return err.WithHint("%s goes on, with more than what is used", raising(run.Flows, l.run.ID, l.state.Reason))
	}
	return err.WithHint("bothy flow run begins another one")
}

// undone refuses to stop a completed flow, because it could not be resumed.
func (l *flowRun) undone() error {
	if l.state.Over() {
		return spec.Errorf(spec.ErrConflict, "the run %s is completed", l.run.ID)
	}
	return nil
}

func (l *flowRun) untold() string { return "" }

// inUse returns the sandboxes of a flow. If it was never ready, nothing ran in them for it.
func (l *flowRun) inUse() []string {
	if !l.state.Ready {
		return nil
	}
	return slices.Collect(maps.Values(l.plan.Sandboxes))
}

// needs returns the sandboxes of a flow, unless it is over for good.
func (l *flowRun) needs() []string {
	if !l.hosted && l.state.Over() && !l.state.Raisable() {
		return nil
	}
	return slices.Collect(maps.Values(l.plan.Sandboxes))
}

// stop ends an orphaned flow.
func (l *flowRun) stop(h *run.Host, events []run.Event) (err error) {
	rooms := map[string]*spec.Sandbox{}
	for room, id := range l.plan.Sandboxes {
		if sb, err := l.engine.Find(id); err == nil {
			rooms[room] = sb
		}
	}
	c := &flow.Carrier{Plan: &l.plan, Run: l.run, Host: h, Runner: runner.NewFlow(nil, l.engine, cmdline.Snapshots(l.engine), rooms, nil)}
	l.state, err = c.Stop(context.Background(), events, actor())
	return err
}

// tidy removes the sandboxes of an ended flow, if its plan says so.
func (l *flowRun) tidy(ctx context.Context) (kept []string, err error) {
	if l.state.Ready {
		return nil, clearFlow(ctx, l.engine, &l.plan, l.state)
	}
	if !l.plan.Remove {
		return nil, nil
	}
	return l.clear(ctx)
}

// clear removes the sandboxes of a flow, which hold copies of the run's files. Sandboxes that work on
// host files are removed only if the user asked for that, and copies with waiting changes never. If
// the flow was never ready, it removes all its sandboxes except those started since.
func (l *flowRun) clear(ctx context.Context) (kept []string, err error) {
	switch {
	case !l.state.Ready:
		return removeUntouched(l.engine, slices.Sorted(maps.Values(l.plan.Sandboxes))...)
	case l.takes():
		return nil, removeAll(ctx, l.engine, &l.plan)
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

// takes reports whether removing a run removes its sandboxes.
func (l *flowRun) takes() bool {
	return l.plan.Directory == "" || l.plan.Remove || len(l.plan.Copies()) > 0
}

// readFlowFile reads a flow from its file.
func (a *app) readFlowFile(path string) (*flowplan.Flow, error) {
	text, err := a.ReadFile(path, maxPrompt)
	if err != nil {
		return nil, hostpath.NotOpened(spec.ErrUsage, "read the flow "+path, err)
	}
	return flowplan.Parse(filepath.Base(path), text)
}

// between returns a check for the number of arguments.
func between(least, most int, what string) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return spec.Errorf(spec.ErrUsage, "%s needs %s", cmd.CommandPath(), what).WithHint("usage: %s", cmd.UseLine())
		}
		return nil
	}
}
