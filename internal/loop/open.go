package loop

import (
	"fmt"
	"slices"

	"github.com/bothy-dev/bothy/internal/task"
)

// Open is a task that is not done, and that nobody can take just now.
type Open struct {
	Task  string      `json:"task"`
	Title string      `json:"title"`
	Why   task.Reason `json:"why"`
	By    []string    `json:"by,omitempty"` // the tasks that it waits for, if it is blocked
}

// maxOpen is how many of them are named: an event has all that is known of a loop's end,
// and a project may have thousands.
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

// never tells of a task for the case that another fails, which was done: there is nothing
// to do about it, and it is not waited for.
func never(s task.State) bool {
	return slices.ContainsFunc(s.Blockers, func(b task.Blocker) bool { return b.Never })
}

// String is for example "bd-2 (blocked by bd-1)".
func (o Open) String() string { return fmt.Sprintf("%s (%s)", o.Task, o.Waits()) }

// Waits is why it cannot be taken, for example "blocked by bd-1".
func (o Open) Waits() string {
	if len(o.By) > 0 {
		return fmt.Sprintf("%s by %s", o.Why, few(o.By))
	}
	return string(o.Why)
}

// openText names those that hold a loop up.
func openText(open []Open) string {
	names := make([]string, len(open))
	for i, o := range open {
		names[i] = o.String()
	}
	return few(names)
}

// counted counts them by why they cannot be taken.
func counted(open []Open) map[task.Reason]int {
	n := map[task.Reason]int{}
	for _, o := range open {
		n[o.Why]++
	}
	return n
}

// noTask ends a loop for which there is no task any more. Open are those that wait for
// something else than it: with them it is not done, however well all is that it did.
func noTask(s *State, open []Open) End {
	e := outOfTasks(s)
	if len(open) == 0 {
		return e
	}
	e.Open, e.HeldUp = counted(open), open[:min(len(open), maxOpen)]
	if e.Status == Completed && e.Reason == reasonDone {
		e.Status, e.Reason = Waiting, ReasonTasksOpen
		e.Detail = doneTasks(s) + ", no other is ready, and " + tally(len(open), "is open", "are open")
		e.Detail += ": " + openText(open)
		return e
	}
	e.Detail += "; still open: " + openText(open)
	return e
}

// ReasonTasksOpen is why a loop waits that has done all tasks that it could take, while
// others are open: a person, or whoever works at them, has to go first.
const ReasonTasksOpen = "tasks_open"
