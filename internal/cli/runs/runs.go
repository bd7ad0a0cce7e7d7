package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/tasks"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/task/book"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

func runsCommand(a *app) *cobra.Command {
	return a.JSONFlag(&cobra.Command{
		Use: "runs", Short: "List loops and flows, first what waits for you", Args: cmdline.Exactly(0, "no argument"),
		Long: "Lists loops and flows: first those that wait for a person, then those that were cut short\nor got stuck, those that failed, those at work, and those that are done.",
		RunE: func(*cobra.Command, []string) error {
			e, err := a.Engine()
			if err != nil {
				return err
			}
			views, err := a.allRuns(e)
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(map[string]any{"runs": views})
			}
			w := a.Table()
			fmt.Fprintln(w, "RUN\tKIND\tSTATUS\tWHY\tNEXT")
			for _, v := range views {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", v.ID, v.Kind, v.Status, cmdline.Dash(term.Opening(v.Why())), cmdline.Dash(term.Sanitize(v.Next)))
			}
			return w.Flush()
		},
	})
}

// RunView is a run in the list of all runs.
type RunView struct {
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

	asks     string // the question to a person that it can ask meanwhile: flow.ReasonApproval or ReasonQuestion
	answered bool   // a loop with a question has an unread hint
	left     bool   // it failed to remove its sandboxes
	gone     bool   // a loop whose sandbox was removed, or a flow whose files were
	held     string // the command that shows the task which holds up a loop until a person acts
}

func (v RunView) Why() string {
	if v.WaitingFor != "" && v.asks == "" {
		return "waits until " + delayText(run.Delay{For: v.WaitingFor, Until: v.Until})
	}
	why := cmp.Or(v.Detail, v.Reason)
	if v.lost() && v.Reason != flow.ReasonRemoved {
		why = strings.TrimPrefix(why+"; its sandbox was removed", "; ")
	}
	return why
}

// lost reports whether a run could be resumed, but for a removed sandbox.
func (v RunView) lost() bool { return v.gone && !v.Hosted && v.rank() <= 2 }

// wait records the wait of a run that continues by itself.
func (v *RunView) wait(w waiter) {
	d := delayOf(w)
	v.WaitingFor, v.Until = d.For, d.Until
}

// allRuns returns all readable runs, in the order in which people should look at them.
func (a *app) allRuns(e *engine.Engine) ([]RunView, error) {
	views, err := runsOf(a, e, "", RunViewOf)
	if err != nil {
		return nil, err
	}
	views = slices.DeleteFunc(views, func(v RunView) bool { return v.Reason == flow.ReasonRemoved && !v.left })
	slices.SortStableFunc(views, func(a, b RunView) int { return cmp.Compare(a.rank(), b.rank()) })
	return views, nil
}

// RunViewOf returns the view of a run, of either kind.
func RunViewOf(e *engine.Engine, r *run.Run) (RunView, error) {
	l, err := readRun(e, r)
	if err != nil {
		return RunView{ID: r.ID, Kind: r.Kind}, err
	}
	now := l.standing()
	v := RunView{
		ID: r.ID, Kind: r.Kind, Status: now.Status, Reason: now.Reason, Detail: now.Detail, CreatedAt: l.record().since, Hosted: l.record().hosted,
		ExitCode: exitCodeOf(l), left: len(l.left()) > 0,
	}
	v.wait(l.progress())
	l.listIn(&v)
	v.Next = v.next()
	return v, nil
}

// listIn adds what the list of all runs tells of a flow.
func (l *flowRun) listIn(v *RunView) {
	v.gone = l.run.Gone() || !v.left && lacksSandbox(l.engine, &l.plan, l.state) // those that only wait for their removal do not count
	if reason, detail := l.state.Asks(); v.Hosted && reason != "" {              // its other steps continue
		v.asks, v.Detail = reason, detail
	}
}

// listIn adds what the list of all runs tells of a loop.
func (l *loopRun) listIn(v *RunView) {
	v.answered = l.state.Urged()
	v.held = l.heldUp()
	_, err := l.engine.Find(l.plan.Sandbox)
	v.gone = l.state.Ready && errors.Is(err, spec.ErrNotFound)
}

// heldUp returns the command that shows the first task that holds a loop up, if it can take none
// now.
func (l *loopRun) heldUp() string {
	if l.standing().Reason != loop.ReasonTasksOpen {
		return ""
	}
	d := taskQueueOf(l.engine, &l.plan, l.run)
	if b, ok := d.Store.(*book.Book); ok { // each open book has a process, and there may be many runs
		defer b.Close()
	}
	open, ready, err := loop.OpenTasks(context.Background(), d, l.state)
	if err != nil || ready || len(open) == 0 {
		return "" // resume reports it
	}
	return showTask(&l.plan, open[0].Task)
}

// showTask returns the command that shows a task of a loop, for the current directory.
func showTask(p *loopplan.Plan, id string) string {
	if here, err := tasks.RealDir(new(hostpath.Guard), "."); err == nil && here == p.Tasks.Project {
		return "bothy task show " + id
	}
	return "bothy task show -C '" + strings.ReplaceAll(p.Tasks.Project, "'", `'\''`) + "' " + id
}

// rank orders runs by how much they need a person.
func (v RunView) rank() int {
	switch {
	case v.asks != "":
		return 0
	case v.left: // it was interrupted at its end
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

// next returns the command for a person to run next.
func (v RunView) next() string {
	asks := v.asks
	if v.Kind == run.Flows && v.Status == run.Waiting {
		asks = v.Reason
	}
	switch {
	case v.lost():
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
	case v.rank() <= 2:
		return "bothy " + v.Kind + " resume " + v.ID
	}
	return ""
}
