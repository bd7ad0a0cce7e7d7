package cli

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runner"
	"github.com/bothy-dev/bothy/spec"
)

func (a *app) flowCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "flow", Aliases: []string{"flows"}, Short: "Carry out steps that need each other, by agents, commands and people",
		Long: "Carries out the steps of a file in sandboxes, in the order in which they need each other.\nWhat a step makes is taken out and judged here, where no sandbox can write. What was\ndone is on the disk before the next step begins.",
	}
	c.AddCommand(a.flowInitCommand(), a.flowRunCommand(), a.flowBuildCommand(), a.flowLsCommand(), a.flowShowCommand(), a.flowSchemaCommand(), a.flowStatusCommand(), a.flowWatchCommand(), a.flowLogCommand(),
		a.flowApproveCommand(), a.flowAnswerCommand(), a.flowStopCommand(), a.flowResumeCommand(), a.flowRmCommand())
	return c
}

// flowRun is an existing flow.
type flowRun struct {
	engine *engine.Engine
	run    *run.Run
	plan   flow.Plan
	since  time.Time
	events []run.Event
	state  *flow.State
	raised *run.Limits // raised limits; nil: none
	hosted bool
	ours   bool // this process ended it
}

// flowCalled finds a flow by name, or the newest without one.
func (a *app) flowCalled(ref string) (*flowRun, error) {
	e, r, err := a.runCalled(run.Flows, ref, "there is no run of a flow")
	if err != nil {
		return nil, err
	}
	return readFlow(e, r)
}

// readFlow reads the state of a flow. A flow that is recorded as running but has no host was cut
// short.
func readFlow(e *engine.Engine, r *run.Run) (*flowRun, error) {
	l := &flowRun{engine: e, run: r}
	var err error
	if l.since, err = r.Plan(&l.plan); err != nil {
		return nil, r.Unreadable(err)
	}
	said, _ := r.Mail()   // before the events: a host records mail before it removes it. Resuming reports errors
	l.hosted = r.Hosted() // likewise: a host records the end before it exits
	if l.events, err = r.Events(); err != nil {
		return nil, err
	}
	if err = l.fold(l.events); err != nil {
		return nil, r.Unreadable(err)
	}
	if !l.hosted && r.Gone() {
		l.state.Result = run.Result(flow.Removed(r))
		return l, nil
	}
	if err := r.Away(); err != nil {
		l.state.Detail = err.Error()
	}
	l.record()
	l.state.Said(said, len(l.events))
	if s := l.state; !l.hosted && s.UnderWay() {
		if s.Result = run.Crash(); !s.Ready && len(l.plan.Sandboxes) > 0 {
			s.Detail = cutInMaking
		}
	}
	return l, nil
}

// record rewrites the record of an orphaned flow if its last process was killed before it wrote one.
// A stale record misleads people who read the file. Bothy's own answers do not depend on it, so a
// failed write is not an error.
func (l *flowRun) record() {
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
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"created_at"`
	Hosted    bool      `json:"hosted"` // a process is running it
	ExitCode  *int      `json:"exit_code,omitempty"`
	Directory string    `json:"run_directory"`
	*flow.State
	Status     run.Status          `json:"status"`
	Reason     string              `json:"stop_reason,omitempty"`
	WaitingFor string              `json:"waiting_for,omitempty"` // run.RateLimited ..., until then
	Until      time.Time           `json:"until,omitzero"`
	Elements   []flow.ElementState `json:"elements,omitempty"`      // of lists
	Refusal    *spec.Limited       `json:"model_refused,omitempty"` // a failed model request; none was answered since
	Behind     []string            `json:"left_behind,omitempty"`   // sandboxes that it failed to remove
	Raised     *run.Limits         `json:"raised,omitempty"`        // raised limits; the plan has them
	Plan       *flow.Plan          `json:"plan"`
}

func flowViewOf(e *engine.Engine, r *run.Run) (flowView, error) {
	l, err := readFlow(e, r)
	if err != nil {
		return flowView{}, err
	}
	return l.view(), nil
}

func (l *flowRun) view() flowView {
	delay := delayOf(l.state)
	v := flowView{ID: l.run.ID, CreatedAt: l.since, Hosted: l.hosted, Directory: l.run.Dir(), State: l.state, WaitingFor: delay.For, Until: delay.Until, Elements: l.state.Elements(), Refusal: l.denied(), Behind: l.left(), Raised: l.raised, Plan: &l.plan}
	status, reason := l.standing()
	v.Status, v.Reason = run.Status(status), reason
	if s := l.state; !s.UnderWay() && !s.Crashed() {
		code := l.state.ExitCode()
		v.ExitCode = &code
	}
	return v
}

// lacks reports whether a sandbox was removed that the flow needs to resume. Sandboxes that only
// wait for their removal do not count.
func (v flowView) lacks(e *engine.Engine) bool {
	return v.Ready && len(v.Behind) == 0 && slices.ContainsFunc(slices.Collect(maps.Values(v.Plan.Sandboxes)), func(id string) bool {
		_, err := e.Find(id)
		return errors.Is(err, spec.ErrNotFound) && !e.IsAway(id)
	})
}

// standing returns status and reason. Some steps may run while others wait for models. If none runs
// and a person is asked something, that comes first.
func (l *flowRun) standing() (status, reason string) {
	s := l.state
	if l.atWork() > 0 {
		return string(s.Status), s.Reason
	}
	status, reason = standing(string(s.Status), s.Reason, s)
	if asks, _ := s.Asks(); asks != "" && delayOf(s).For != "" {
		reason = asks
	}
	return status, reason
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
		return l.removed()
	}
	err := spec.Errorf(spec.ErrConflict, "the run %s has ended: %s", l.run.ID, l.state.Status)
	if l.state.Raisable() {
		return err.WithHint("%s goes on, with more than what is used", raising(run.Flows, l.run.ID, l.state.Reason))
	}
	return err.WithHint("bothy flow run begins another one")
}

// removed returns the error for a run whose files were deleted, and lists its remaining sandboxes.
func (l *flowRun) removed() error {
	err := spec.Errorf(spec.ErrNotFound, "the run %s is gone: %s", l.run.ID, flow.Removed(l.run).Detail)
	if left := l.left(); len(left) > 0 {
		return err.WithHint("bothy flow rm %s removes what is left of it: %s", l.run.ID, strings.Join(left, ", "))
	}
	return err.WithHint("bothy flow run begins another one")
}

func (a *app) flowStopCommand() *cobra.Command {
	return &cobra.Command{
		Use: "stop [RUN]", Short: "End a flow for good; without RUN the only one that is not over", Args: atMost(1, "a run"), ValidArgsFunction: a.oneRun(run.Flows),
		Long: "Ends a flow at once, with the agent or the command that works just now. One that is\ncompleted but for what was skipped is left at that: what it put out stays, and nobody\ncan go on with it.",
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := a.flowMeant(args, (*flowRun).ends, "is not over")
			if err == nil {
				err = l.open()
			}
			if err == nil {
				err = l.undone()
			}
			if err != nil {
				return err
			}
			err = a.stopRun(cmd.Context(), l.run, func() bool { return l.state.Final() }, l.cancel)
			if l.ours { // otherwise the process that runs it notifies
				n := engine.Notice{Run: l.run.ID, Kind: l.run.Kind, Directory: l.plan.Directory}
				a.notify(context.WithoutCancel(cmd.Context()), l.engine, flowStopped(n, l.state))
			}
			return err
		},
	}
}

// undone refuses to stop a completed flow, because it could not be resumed.
func (l *flowRun) undone() error {
	if l.state.Over() {
		return spec.Errorf(spec.ErrConflict, "the run %s is completed", l.run.ID)
	}
	return nil
}

// cancel ends an orphaned flow. If a process runs the flow, that one has got the message.
func (l *flowRun) cancel() error {
	h, events, err := l.run.Host()
	if errors.Is(err, spec.ErrConflict) {
		return nil
	}
	if err != nil {
		return err
	}
	defer h.Close()
	if l.state, err = flow.Fold(&l.plan, events); err != nil {
		return err
	}
	if l.state.Final() { // it ended just now
		return l.run.Forget(time.Time{}, run.Stop) // its host exited before it read them
	}
	if err := l.undone(); err != nil { // it completed just now
		return errors.Join(err, l.run.Forget(time.Time{}, run.Stop))
	}
	if l.state.Ready { // otherwise nothing ran in them for this flow
		if err := endAll(l.engine, slices.Collect(maps.Values(l.plan.Sandboxes))...); err != nil {
			return err
		}
	}
	rooms := map[string]*spec.Sandbox{}
	for room, id := range l.plan.Sandboxes {
		if sb, err := l.engine.Find(id); err == nil {
			rooms[room] = sb
		}
	}
	l.state, err = (&flow.Carrier{Plan: &l.plan, Run: l.run, Host: h, Shop: runner.NewFlow(nil, l.engine, rooms, nil)}).Stop(context.Background(), events, actor())
	l.ours = err == nil
	switch {
	case err != nil || !l.plan.Remove:
	case l.state.Ready:
		err = removeAll(context.Background(), l.engine, &l.plan)
	default:
		_, err = l.untouched()
	}
	return err
}

// removeAll removes the sandboxes of a flow, including those put away. It keeps sandboxes with
// changes that wait for a person.
func removeAll(ctx context.Context, e *engine.Engine, p *flow.Plan) error {
	return eachPassing(ctx, p, func(ctx context.Context, id string) error {
		sb, err := e.Find(id)
		if err == nil {
			err = e.Remove(ctx, sb, true)
		}
		if err == nil || errors.Is(err, spec.ErrNotFound) {
			err = e.Forget(id)
		}
		return err
	})
}

func (a *app) flowRmCommand() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use: "rm [-f] RUN...", Aliases: []string{"remove", "delete"}, Short: "Remove runs of flows, with their outputs and sandboxes",
		Args: atLeast(1, "a run"), ValidArgsFunction: a.oneRun(run.Flows),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.eachRun(args, func(ref string) (*run.Run, error) {
				e, r, err := a.runCalled(run.Flows, ref, "there is no run of a flow")
				if err != nil {
					return nil, err
				}
				l, err := readFlow(e, r)
				if err != nil {
					return r, a.removeUnread(r, force, err)
				}
				return r, a.removeFlow(cmd.Context(), l)
			})
		},
	}
	c.Flags().BoolVarP(&force, "force", "f", false, "also one that cannot be read; its sandboxes stay")
	return c
}

// removeFlow removes a run that no process is running. Its sandboxes hold copies of the run's files
// and are removed, too. Sandboxes that work on host files are removed only if the user asked for
// that, and copies with waiting changes never.
func (a *app) removeFlow(ctx context.Context, l *flowRun) error {
	h, events, err := l.run.Host()
	if err != nil {
		return err
	}
	defer h.Close()
	if l.state, err = flow.Fold(&l.plan, events); err != nil {
		return err
	}
	if l.state.Ready && l.takes() {
		if err := removeAll(ctx, l.engine, &l.plan); err != nil {
			return err
		}
	}
	kept, err := l.erase(h)
	a.sayKept(kept)
	return err
}

// takes reports whether removing a run removes its sandboxes.
func (l *flowRun) takes() bool {
	return l.plan.Directory == "" || l.plan.Remove || len(l.plan.Copies()) > 0
}

// erase removes a run. If the run was never ready, it first removes its sandboxes, which would be
// orphans without it, except those started since.
func (l *flowRun) erase(h *run.Host) (kept []string, err error) {
	if !l.state.Ready {
		kept, err = l.untouched()
	}
	if err != nil {
		return nil, err
	}
	return kept, h.Remove()
}

// untouched removes the sandboxes of a run that never was ready.
func (l *flowRun) untouched() (kept []string, err error) {
	return removeUntouched(l.engine, slices.Sorted(maps.Values(l.plan.Sandboxes))...)
}

// readFlowFile reads a flow from its file.
func (a *app) readFlowFile(path string) (*flow.Flow, error) {
	text, err := a.readFile(path, maxPrompt)
	if err != nil {
		return nil, notOpened(spec.ErrUsage, "read the flow "+path, err)
	}
	return flow.Parse(filepath.Base(path), text)
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
