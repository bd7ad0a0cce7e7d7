package loop

import (
	"context"
	"fmt"
	"strings"

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
	return &Taken{ID: t.ID, Title: run.Plain(t.Title), Text: textOf(t), Closed: t.Status == task.Closed}
}

// maxTaskText bounds the text of a task in a prompt, in bytes.
const maxTaskText = 24 << 10

// textOf returns the text of a task without its title.
func textOf(t *task.Task) string {
	var b strings.Builder
	for _, part := range []struct{ heading, text string }{
		{"", t.Description}, {"Design", t.Design}, {"Accepted if", t.AcceptanceCriteria}, {"Notes", t.Notes},
	} {
		text := strings.TrimSpace(run.Plain(part.text))
		if text == "" {
			continue
		}
		if part.heading != "" {
			fmt.Fprintf(&b, "%s:\n\n", part.heading)
		}
		b.WriteString(text + "\n\n")
	}
	return run.Beginning(b.String(), maxTaskText)
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
	for _, w := range append([]*State{s}, s.Workers...) {
		if w.Task != nil {
			except = append(except, w.Task.ID)
		}
	}
	return q.Ahead(ctx, except)
}

// openText names the tasks that hold a loop up.
func openText(open []taskqueue.Open) string {
	names := make([]string, len(open))
	for i, o := range open {
		names[i] = o.String()
	}
	return run.Few(names)
}

// counted counts open tasks by the reason why they cannot be taken.
func counted(open []taskqueue.Open) map[task.Reason]int {
	n := map[task.Reason]int{}
	for _, o := range open {
		n[o.Why]++
	}
	return n
}

// noTask ends a loop that has no ready task left. open are the tasks that wait for something other
// than this loop: with them the loop is not done, however good its own work is.
func noTask(s *State, open []taskqueue.Open) End {
	e := outOfTasks(s)
	if len(open) == 0 {
		return e
	}
	e.Open, e.HeldUp = counted(open), open[:min(len(open), taskqueue.MaxOpen)]
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
