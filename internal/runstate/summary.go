package runstate

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/task/book"
	"github.com/bothy-dev/bothy/spec"
)

// Summary is a run in the list of all runs.
type Summary struct {
	ID        string     `json:"id"`
	Kind      string     `json:"kind"` // loop or flow
	Status    run.Status `json:"status"`
	Reason    string     `json:"stop_reason,omitempty"`
	Detail    string     `json:"detail,omitempty"`
	CreatedAt time.Time  `json:"created_at"`
	Hosted    bool       `json:"hosted"` // a process is running it
	ExitCode  *int       `json:"exit_code,omitempty"`
	Next      string     `json:"next,omitempty"` // the command for a person to run next
	// WaitingFor is run.RateLimited ..., until then; empty if it does not wait for models.
	WaitingFor string    `json:"waiting_for,omitempty"`
	Until      time.Time `json:"until,omitzero"`

	asks       string // the question to a person that it can ask meanwhile: flow.ReasonApproval or ReasonQuestion
	answered   bool   // a loop with a question has an unread hint
	LeftBehind bool   `json:"-"` // it failed to remove its sandboxes
	gone       bool   // a loop whose sandbox was removed, or a flow whose files were
	held       string // the command that shows the task which holds up a loop until a person acts
}

// Waits returns the wait of a run that continues by itself, unless a person is asked something first.
func (v Summary) Waits() (run.Delay, bool) {
	return run.Delay{For: v.WaitingFor, Until: v.Until}, v.WaitingFor != "" && v.asks == ""
}

// Why says why a run that does not wait has come to its status. It may be empty.
func (v Summary) Why() string {
	why := cmp.Or(v.Detail, v.Reason)
	if v.lacksSandbox() && v.Reason != flow.ReasonRemoved {
		why = strings.TrimPrefix(why+"; its sandbox was removed", "; ")
	}
	return why
}

// lacksSandbox reports whether a run could be resumed, but for a removed sandbox.
func (v Summary) lacksSandbox() bool { return v.gone && !v.Hosted && v.Rank() <= 2 }

// recordWait records the wait of a run that continues by itself.
func (v *Summary) recordWait(w Waiter) {
	d := DelayOf(w)
	v.WaitingFor, v.Until = d.For, d.Until
}

// Summarize returns the view of a run, of either kind.
func Summarize(e *engine.Engine, r *run.Run) (Summary, error) {
	l, err := Read(e, r)
	if err != nil {
		return Summary{ID: r.ID, Kind: r.Kind}, err
	}
	now := l.Standing()
	v := Summary{
		ID: r.ID, Kind: r.Kind, Status: now.Status, Reason: now.Reason, Detail: now.Detail, CreatedAt: l.Recorded().Since, Hosted: l.Recorded().Hosted,
		ExitCode: exitCodeOf(l), LeftBehind: len(l.LeftBehind()) > 0,
	}
	v.recordWait(l.Progress())
	l.addSummary(&v)
	v.Next = v.nextCommand()
	return v, nil
}

// addSummary adds what the list of all runs tells of a flow.
func (l *Flow) addSummary(v *Summary) {
	v.gone = l.Run.Gone() || !v.LeftBehind && lacksSandbox(l.Engine, &l.Plan, l.State) // those that only wait for their removal do not count
	if reason, detail := l.State.Asks(); v.Hosted && reason != "" {                    // its other steps continue
		v.asks, v.Detail = reason, detail
	}
}

// addSummary adds what the list of all runs tells of a loop.
func (l *Loop) addSummary(v *Summary) {
	v.answered = l.State.Urged()
	v.held = l.heldUp()
	_, err := l.Engine.Find(l.Plan.Sandbox)
	v.gone = l.State.Ready && errors.Is(err, spec.ErrNotFound)
}

// heldUp returns the command that shows the first task that holds a loop up, if it can take none
// now.
func (l *Loop) heldUp() string {
	if l.Standing().Reason != loop.ReasonTasksOpen {
		return ""
	}
	d := TaskQueueOf(l.Engine, &l.Plan, l.Run)
	if b, ok := d.Store.(*book.Book); ok { // each open book has a process, and there may be many runs
		defer b.Close()
	}
	open, ready, err := loop.OpenTasks(context.Background(), d, l.State)
	if err != nil || ready || len(open) == 0 {
		return "" // resume reports it
	}
	return ShowTask(&l.Plan, open[0].Task)
}

// ShowTask returns the command that shows a task of a loop, for the current directory.
func ShowTask(p *loopplan.Plan, id string) string {
	if here, err := new(hostpath.Guard).Real("."); err == nil && here == p.Tasks.Project {
		return "bothy task show " + id
	}
	return "bothy task show -C '" + strings.ReplaceAll(p.Tasks.Project, "'", `'\''`) + "' " + id
}

// Rank orders runs by how much they need a person.
func (v Summary) Rank() int {
	switch {
	case v.asks != "":
		return 0
	case v.LeftBehind: // it was interrupted at its end
		return 1
	}
	switch v.Status {
	case run.Waiting:
		if v.WaitingFor != "" { // it continues by itself
			return 3
		}
		return 0
	case run.Stalled, run.Interrupted:
		return 1
	case run.Failed:
		return 2
	case run.Completed:
		if v.Reason == flow.ReasonSkipped { // a person has to look at the skipped steps
			return 2
		}
	case run.Running, run.Queued:
		return 3
	}
	return 4
}

// nextCommand returns the command for a person to run next.
func (v Summary) nextCommand() string {
	asks := v.asks
	if v.Kind == run.Flows && v.Status == run.Waiting {
		asks = v.Reason
	}
	switch {
	case v.lacksSandbox():
		return "bothy " + v.Kind + " rm " + v.ID
	case asks == flow.ReasonApproval:
		return "bothy flow approve " + v.ID
	case asks == flow.ReasonQuestion:
		return "bothy flow answer " + v.ID + " 'TEXT'"
	case v.Hosted:
		return ""
	case v.Status == run.Waiting && v.Reason == loop.ReasonQuestion && !v.answered:
		return "bothy loop hint " + v.ID + " 'TEXT'"
	case v.Detail == cutInMaking: // it cannot be resumed
		return "bothy " + v.Kind + " rm " + v.ID
	case v.held != "":
		return v.held
	case v.Rank() <= 2:
		return "bothy " + v.Kind + " resume " + v.ID
	}
	return ""
}

// DelayReason says why a run waits.
func DelayReason(d run.Delay) string {
	if d.For == run.Overloaded {
		return "the provider of a model is overloaded"
	}
	return "an allowance is used up"
}
