// Package launch starts loops and flows, resumes them and rewinds them. A request becomes a plan without a
// terminal and without a sandbox; the plan becomes a run and its sandboxes, which this process then carries on.
// The caller shows the progress and the questions: see [Host].
package launch

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/notify"
	"github.com/bothy-dev/bothy/internal/provision"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runner"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/internal/snapshot"
	"github.com/bothy-dev/bothy/spec"
)

// Host is the caller's part: it shows a run.
type Host interface {
	// Note tells a person something.
	Note(format string, args ...any)
	// ShowLoop shows the next event of a loop, and ShowFlow one of a flow. The state is the one after it.
	ShowLoop(p *loopplan.Plan, ev run.Event, s *loop.State)
	ShowFlow(ev run.Event, s *flow.State)
	// EndLoop and EndFlow tell how a run stands when no process will carry it on, before anybody else is
	// told. They are not called for a run that was over before.
	EndLoop(LoopEnd)
	EndFlow(FlowEnd)
}

// LoopEnd is a loop that this process has carried on.
type LoopEnd struct {
	Run     *run.Run
	Plan    *loopplan.Plan
	State   *loop.State
	Sandbox *spec.Sandbox // nil: it was removed meanwhile
}

// FlowEnd is a flow that this process has carried on.
type FlowEnd struct {
	Run   *run.Run
	Plan  *flowplan.Plan
	State *flow.State
	Left  error  // sandboxes that should have been removed and were not; nil: none
	Next  string // the command for a person to run next; empty: none
	Lost  bool   // a sandbox was removed without which the flow cannot go on
}

// Launcher makes runs in one state directory and carries them on.
type Launcher struct {
	*provision.Provisioner
	Host Host
	// Ask asks a person a question that yes or no answers. Nil: no person can be asked.
	Ask func(question string) bool
}

var _ runner.Host = (*Launcher)(nil)

// Note implements [runner.Host].
func (l *Launcher) Note(format string, args ...any) { l.Host.Note(format, args...) }

// InstallAgent implements [runner.Host].
func (l *Launcher) InstallAgent(ctx context.Context, of *spec.Agent, sb *spec.Sandbox) (*spec.Program, error) {
	return l.Install(ctx, of, sb, "")
}

// Ended is a run that this process no longer holds: it is over, or waits for a person.
type Ended struct {
	Run *run.Run
	// Code is the exit code for a process that carried the run on.
	Code int
	// View is the run as it stood then, in JSON. It is nil if that could not be read; Unread says why.
	View   any
	Unread error
	// Draft is the file that a drafted flow was written to, after Elapsed. Empty: none.
	Draft   string
	Elapsed time.Duration
}

// finish releases a run and sends the notice that it ended. It looks at the run first, because a notified
// program may resume or remove it at once.
func (l *Launcher) finish(ctx context.Context, r *run.Run, h *run.Host, n notify.Notice, code int) *Ended {
	end := &Ended{Run: r, Code: code}
	state, err := runstate.Read(l.Engine, r)
	if err == nil {
		state.Recorded().Hosted = false
		end.View = state.View()
	}
	end.Unread = err
	h.Close()
	l.notify(context.WithoutCancel(ctx), n) // a signal may have canceled ctx
	return end
}

// noteAll tells the person several things.
func (l *Launcher) noteAll(notes []string) {
	for _, note := range notes {
		l.Note("%s", note)
	}
}

func (l *Launcher) snapshots() *snapshot.Snapshots { return snapshot.New(l.Engine) }

// makeSandbox makes a sandbox for a run of a kind. It calls before after all checks and before the sandbox
// exists.
func (l *Launcher) makeSandbox(ctx context.Context, kind string, req spec.Request, before func(*spec.Sandbox) error) (*spec.Sandbox, error) {
	pl, err := l.Plan(req, false)
	if err != nil {
		return nil, err
	}
	l.noteAll(pl.Notes)
	if l.Ask != nil {
		pl.AnswerGit(l.Ask)
	}
	sb, err := l.Create(ctx, pl, before)
	if err == nil {
		l.adviseGit(kind, pl)
	}
	return sb, err
}

// adviseGit tells why git does not work in a new sandbox, and the way to one in which it does.
func (l *Launcher) adviseGit(kind string, pl *provision.Plan) {
	for _, g := range pl.Git {
		l.Note("%s", g.Why)
		if slices.Contains(g.Options, "--git-dir") { // a run already works in it
			l.Note("hint: end it (bothy %s stop), and begin anew with %s", kind, strings.Join(g.Options, " "))
			continue
		}
		l.Note("hint: %s", g.Command("create", pl.Sandbox.Agent))
	}
}
