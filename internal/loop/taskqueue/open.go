package taskqueue

import (
	"fmt"
	"slices"

	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/task"
)

// Open is an unfinished task that cannot be taken at the moment.
type Open struct {
	Task  string      `json:"task"`
	Title string      `json:"title"`
	Why   task.Reason `json:"why"`
	By    []string    `json:"by,omitempty"` // the tasks that it waits for, if it is blocked
}

// MaxOpen is how many open tasks are named: the event of a loop's end names them all, and a project may
// have thousands.
const MaxOpen = 20

func openOf(t *task.Task, s task.State) Open {
	o := Open{Task: t.ID, Title: run.Beginning(run.Plain(t.Title), 200), Why: s.Reason}
	for _, b := range s.Blockers {
		if !slices.Contains(o.By, b.ID) && len(o.By) < MaxOpen {
			o.By = append(o.By, b.ID)
		}
	}
	return o
}

// neverNeeded reports whether a task was meant for the failure of another task that succeeded: it needs no
// work, and no task waits for it.
func neverNeeded(s task.State) bool {
	return slices.ContainsFunc(s.Blockers, func(b task.Blocker) bool { return b.Never })
}

// String returns for example "bd-2 (blocked by bd-1)".
func (o Open) String() string { return fmt.Sprintf("%s (%s)", o.Task, o.Waits()) }

// Waits says why the task cannot be taken, for example "blocked by bd-1".
func (o Open) Waits() string {
	if len(o.By) > 0 {
		return fmt.Sprintf("%s by %s", o.Why, run.Few(o.By))
	}
	return string(o.Why)
}

// Names names the tasks that hold a loop up.
func Names(open []Open) string {
	names := make([]string, len(open))
	for i, o := range open {
		names[i] = o.String()
	}
	return run.Few(names)
}

// Count counts open tasks by the reason why they cannot be taken.
func Count(open []Open) map[task.Reason]int {
	n := map[task.Reason]int{}
	for _, o := range open {
		n[o.Why]++
	}
	return n
}
