package runs

import (
	"fmt"
	"strings"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// runKind is a kind of runs, with the words of its commands.
type runKind struct {
	name    string // run.Loops or run.Flows
	missing string // the error without any run
	titles  string // of the columns of ls
	stop    string // the short help of stop
	stopped string // the long help of stop
	remove  string // the short help of rm
	list    string // the short help of ls
}

var (
	loops = &runKind{
		name: run.Loops, missing: "no loops found",
		list: "List loops, the newest first", titles: "RUN\tSTATUS\tITERATION\tAGENT\tSANDBOX\tDIRECTORY",
		stop:    "End a loop for good; without RUN the newest",
		stopped: "Ends a loop at once, with the agent if it works just now. The work stays in the\nsandbox.",
		remove:  "Remove the records of loops; the sandbox of a loop that was ready stays",
	}
	flows = &runKind{
		name: run.Flows, missing: "no flows found",
		list: "List runs of flows, the newest first", titles: "RUN\tSTATUS\tSTEPS\tFLOW",
		stop:    "End a flow for good; without RUN the only one that is not over",
		stopped: "Ends a flow at once, with the agent or the command that works just now. One that is\ncompleted but for skipped steps is left at that: its outputs stay, and it cannot be\nresumed.",
		remove:  "Remove runs of flows, with their outputs and sandboxes",
	}
)

// findRun finds a run by its name, or the newest without one.
func (a *app) findRun(k *runKind, ref string) (*engine.Engine, *run.Run, error) {
	e, err := a.Engine()
	if err != nil {
		return nil, nil, err
	}
	if ref != "" {
		r, err := run.FindOf(e.Store.Runs(), k.name, ref)
		return e, r, err
	}
	list, err := run.ListOf(e.Store.Runs(), k.name)
	if err != nil {
		return nil, nil, err
	}
	if len(list) == 0 {
		return nil, nil, spec.Errorf(spec.ErrNotFound, "%s", k.missing).WithHint("bothy %s run begins one", k.name)
	}
	return e, list[0], nil
}

// openRun reads the run of this name, or the newest without one.
func openRun[R any](a *app, k *runKind, ref string, read func(*engine.Engine, *run.Run) (R, error)) (l R, err error) {
	e, r, err := a.findRun(k, ref)
	if err != nil {
		return l, err
	}
	return read(e, r)
}

// noteUnread prints why a run of a list cannot be read.
func (a *app) noteUnread(id string, err error) {
	a.Note("%s", strings.TrimSuffix(fmt.Sprintf("%s: %v: %s", id, err, spec.Hint(err)), ": "))
}
