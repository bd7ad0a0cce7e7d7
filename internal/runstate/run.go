// Package runstate reads existing loops and flows: how they stand, what a person can do with them, and which
// sandboxes they need. It stops, tidies and removes them. It prints nothing.
package runstate

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/notify"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// Reads existing runs, whatever their kind.

// Record is what the files of every run tell.
type Record struct {
	Engine    *engine.Engine
	Run       *run.Run
	Since     time.Time // when it began
	Directory string    // that it works on; empty: none
	Events    []run.Event
	Raised    *run.Limits // raised limits; nil: none
	Hosted    bool        // a process is running it
	Ours      bool        // this process ended it
}

func (l *Record) Recorded() *Record { return l }

// readRecord reads a run. plan receives its plan, and fold its events. The messages are those that no
// process had recorded by then.
func (l *Record) readRecord(plan any, fold func([]run.Event) error) (mail []run.Message, err error) {
	if l.Since, err = l.Run.Plan(plan); err != nil {
		return nil, l.Run.Unreadable(err)
	}
	mail, _ = l.Run.Mail()    // before the events, which record mail read meanwhile; the host reports errors
	l.Hosted = l.Run.Hosted() // also before the events: a host records the end before it exits
	if l.Events, err = l.Run.Events(); err != nil {
		return nil, err
	}
	return mail, l.Run.Unreadable(fold(l.Events))
}

// noteCrash marks a run that is recorded as running but has no host. made tells whether its
// sandboxes were made.
func (l *Record) noteCrash(r *run.Result, made bool) {
	if l.Hosted || !r.UnderWay() {
		return
	}
	if *r = run.Crash(); !made {
		r.Detail = cutInMaking
	}
}

// Notice returns the fields that every notice about a run has.
func (l *Record) Notice() notify.Notice {
	return notify.Notice{Run: l.Run.ID, Kind: l.Run.Kind, Directory: l.Directory}
}

// Run is an existing loop or flow. It is a [Loop] or a [Flow].
type Run interface {
	Recorded() *Record
	Progress() State
	Result() *run.Result
	Standing() run.Result  // the result that people see
	LeftBehind() []string  // the sandboxes that it failed to remove, by name
	View() any             // its state in JSON
	addSummary(v *Summary) // adds what the list of all runs tells

	Fold(events []run.Event) error // computes the state from events
	CheckOpen() error              // refuses to talk to a run that has ended for good
	CheckUndone() error            // refuses to stop a run that is completed
	UsedSandboxes() []string       // the IDs of the sandboxes in which an agent may still be working
	NeededSandboxes() []string     // the IDs of the sandboxes without which it cannot be resumed
	cancelOrphan(h *run.Host, events []run.Event) error
	// TidyUp removes the sandboxes that an ended run does not need any more. It returns the names of those
	// that stay because a person has started them.
	TidyUp(ctx context.Context) (kept []string, err error)
	// RemoveOwned removes the sandboxes that belong to the run when it is removed. It returns names likewise.
	RemoveOwned(ctx context.Context) (kept []string, err error)

	RaiseLimits(limits *run.Limits) error // changes the limits in the plan, if the run can be resumed within them
	CanGoOn() bool                        // it stopped at a limit that was raised since
	IsMade() bool                         // its sandboxes were made
	IsUnfinished() bool                   // a process had to do more after the end
}

// State is the state of a run after its events.
type State interface {
	Patient
	ExitCode() int
	Final() bool // it cannot be resumed
}

// Read reads a run of either kind.
func Read(e *engine.Engine, r *run.Run) (Run, error) {
	if r.Kind == run.Flows {
		return ReadFlow(e, r)
	}
	return ReadLoop(e, r)
}

// Shared by runs of loops and of flows.

// Waiter is a run that may wait for something and continue by itself.
type Waiter interface{ Waits() (run.Delay, bool) }

// DelayOf returns the reason of a run's wait and its end, or the zero value. A run that was stopped
// meanwhile does not wait. Of several workers, the first to continue counts.
func DelayOf(w Waiter) run.Delay {
	if d, waits := w.Waits(); waits {
		return d
	}
	return run.Delay{}
}

// standingOf returns the result that people see. A run that waits for models is waiting, although its
// process is alive and continues by itself.
func standingOf(w Waiter, r run.Result) run.Result {
	if d := DelayOf(w); d.For != "" {
		r.Status, r.Reason = run.Waiting, d.For
	}
	return r
}

// cutInMaking is the detail of a run that was interrupted before it was ready.
const cutInMaking = "it was cut short while its sandboxes were made: nothing was done"

// removeUntouched removes sandboxes that were made for a run which never was ready. It keeps those
// that were started since or may have been, and returns their names.
func removeUntouched(e *engine.Engine, ids ...string) (kept []string, err error) {
	for _, id := range ids {
		sb, err := e.Find(id)
		switch {
		case errors.Is(err, spec.ErrNotFound):
			continue
		case err != nil:
			return nil, err
		case e.Store.Sandbox(sb.ID).MayHaveStarted():
			kept = append(kept, sb.Name)
			continue
		}
		if err := e.Remove(context.Background(), sb, false); err != nil {
			return nil, err
		}
	}
	return kept, nil
}

// Head is the part of a run's state in JSON that all kinds share.
type Head struct {
	ID         string        `json:"id"`
	CreatedAt  time.Time     `json:"created_at"`
	Hosted     bool          `json:"hosted"`              // a process is running it
	ExitCode   *int          `json:"exit_code,omitempty"` // of the process that ran it to its end; a crash has none
	Status     run.Status    `json:"status"`
	Reason     string        `json:"stop_reason,omitempty"`
	WaitingFor string        `json:"waiting_for,omitempty"`   // run.RateLimited ..., until then
	Refusal    *spec.Limited `json:"model_refused,omitempty"` // a failed model request; none was answered since
	Behind     []string      `json:"left_behind,omitempty"`   // sandboxes that it failed to remove
	Raised     *run.Limits   `json:"raised,omitempty"`        // raised limits; the plan has them
}

func headOf(l Run) Head {
	r, now := l.Recorded(), l.Standing()
	return Head{
		ID: r.Run.ID, CreatedAt: r.Since, Hosted: r.Hosted, ExitCode: exitCodeOf(l), Status: now.Status, Reason: now.Reason,
		WaitingFor: DelayOf(l.Progress()).For, Refusal: Denied(l), Behind: l.LeftBehind(), Raised: r.Raised,
	}
}

// exitCodeOf returns the exit code of the process that ran a run to its end, or nil.
func exitCodeOf(l Run) *int {
	if r := l.Result(); r.UnderWay() || r.Crashed() {
		return nil
	}
	return new(l.Progress().ExitCode())
}

// IsErased reports whether nothing is left of a run but its record.
func IsErased(l Run) bool { return l.Result().Reason == flow.ReasonRemoved && len(l.LeftBehind()) == 0 }

// Patient is a run that may wait for models.
type Patient interface {
	Waiter
	Denied() bool // reports whether a model failed and none has answered since
}

// FilesGone returns the error for a run whose files were deleted, and lists its remaining sandboxes.
func FilesGone(l Run) error {
	r := l.Recorded().Run
	err := spec.Errorf(spec.ErrNotFound, "the run %s is gone: %s was removed", r.ID, r.Dir())
	if left := l.LeftBehind(); len(left) > 0 {
		return err.WithHint("bothy %s rm %s removes the rest of it: %s", r.Kind, r.ID, strings.Join(left, ", "))
	}
	return err.WithHint("bothy %s run begins another one", r.Kind)
}
