package loop

import (
	"context"

	"github.com/bothy-dev/bothy/internal/loop/taskqueue"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/task"
)

// Taken is a task that a loop works on, as it was when the loop took it.
type Taken struct {
	By
	ID    string `json:"id"`
	Title string `json:"title"`
	Text  string `json:"text,omitempty"` // the text for the agent
	Base  int64  `json:"base,omitempty"` // the checkpoint that a worker starts with, if it starts
	// Closed says that the task was closed before a crash, when all gates agreed.
	Closed bool `json:"closed,omitempty"`
}

// takenOf returns a task as a loop takes it.
func takenOf(t *task.Task) *Taken {
	return &Taken{ID: t.ID, Title: run.Plain(t.Title), Text: taskqueue.Text(t), Closed: t.Status == task.Closed}
}

// OpenTasks returns the unfinished tasks that a loop in this state cannot take, and reports whether another
// one is ready.
func OpenTasks(ctx context.Context, q *taskqueue.Queue, s *State) (open []taskqueue.Open, ready bool, err error) {
	list, open, err := q.Ahead(ctx, leftOf(s))
	return open, len(list) > 0, err
}

// TasksAhead returns the tasks that are left for a loop in this state: those that it could take now, in
// order, and those that it cannot take, or not yet. Neither list has the current tasks.
func TasksAhead(ctx context.Context, q *taskqueue.Queue, s *State) (ready, open []taskqueue.Open, err error) {
	except := leftOf(s)
	for _, w := range s.allStates() {
		if w.Task != nil {
			except = append(except, w.Task.ID)
		}
	}
	return q.Ahead(ctx, except)
}

// noTask ends a loop that has no ready task left. open are the tasks that wait for something other
// than this loop: with them the loop is not done, however good its own work is.
func noTask(s *State, open []taskqueue.Open) End {
	e := outOfTasks(s)
	if len(open) == 0 {
		return e
	}
	e.Open, e.HeldUp = taskqueue.Count(open), open[:min(len(open), taskqueue.MaxOpen)]
	if e.Status == run.Completed && e.Reason == reasonDone {
		e.Status, e.Reason = run.Waiting, ReasonTasksOpen
		e.Detail = doneTasks(s) + ", no other is ready, and " + countText(len(open), "is open", "are open")
		e.Detail += ": " + taskqueue.Names(open)
		return e
	}
	e.Detail += "; still open: " + taskqueue.Names(open)
	return e
}

// ReasonTasksOpen is the reason of a loop that has done all tasks that it could take, while others are
// open: it waits for a person, or for another agent that works at them.
const ReasonTasksOpen = "tasks_open"
