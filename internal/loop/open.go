package loop

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

// maxOpen is how many open tasks are named: the event of a loop's end names them all, and a project may
// have thousands.
const maxOpen = 20

func openOf(t *task.Task, s task.State) Open {
	o := Open{Task: t.ID, Title: beginning(plain(t.Title), 200), Why: s.Reason}
	for _, b := range s.Blockers {
		if !slices.Contains(o.By, b.ID) && len(o.By) < maxOpen {
			o.By = append(o.By, b.ID)
		}
	}
	return o
}

// never reports whether a task was meant for the failure of another task that succeeded: it needs no
// work, and no task waits for it.
func never(s task.State) bool {
	return slices.ContainsFunc(s.Blockers, func(b task.Blocker) bool { return b.Never })
}

// String returns for example "bd-2 (blocked by bd-1)".
func (o Open) String() string { return fmt.Sprintf("%s (%s)", o.Task, o.Waits()) }

// Waits says why the task cannot be taken, for example "blocked by bd-1".
func (o Open) Waits() string {
	if len(o.By) > 0 {
		return fmt.Sprintf("%s by %s", o.Why, few(o.By))
	}
	return string(o.Why)
}

// openText names the tasks that hold a loop up.
func openText(open []Open) string {
	names := make([]string, len(open))
	for i, o := range open {
		names[i] = o.String()
	}
	return few(names)
}

// counted counts open tasks by the reason why they cannot be taken.
func counted(open []Open) map[task.Reason]int {
	n := map[task.Reason]int{}
	for _, o := range open {
		n[o.Why]++
	}
	return n
}

// noTask ends a loop that has no ready task left. open are the tasks that wait for something other
// than this loop: with them the loop is not done, however good its own work is.
func noTask(s *State, open []Open) End {
	e := outOfTasks(s)
	if len(open) == 0 {
		return e
	}
	e.Open, e.HeldUp = counted(open), open[:min(len(open), maxOpen)]
	if e.Status == run.Completed && e.Reason == reasonDone {
		e.Status, e.Reason = run.Waiting, ReasonTasksOpen
		e.Detail = doneTasks(s) + ", no other is ready, and " + tally(len(open), "is open", "are open")
		e.Detail += ": " + openText(open)
		return e
	}
	e.Detail += "; still open: " + openText(open)
	return e
}

// ReasonTasksOpen is the reason of a loop that has done all tasks that it could take, while others are
// open: it waits for a person, or for another agent that works at them.
const ReasonTasksOpen = "tasks_open"
