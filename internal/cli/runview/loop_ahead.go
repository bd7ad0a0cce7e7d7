package runview

import (
	"context"
	"fmt"
	"time"

	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/loop/taskqueue"
	"github.com/bothy-dev/bothy/internal/task/book"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/internal/tui"
)

// Lists the tasks to come of a watched loop.

// ahead holds these tasks.
type ahead struct {
	ready, notReady []taskqueue.Open // tasks the loop could take now, in order, and the others
	err             error            // why they could not be read
}

// aheadEvery is how often they are reread while the loop is idle: other processes may add tasks.
const aheadEvery = 3 * time.Second

// lookout reads the tasks when necessary.
type lookout struct {
	queue  *taskqueue.Queue // nil: the loop takes no tasks
	now    ahead
	at     time.Time
	events int
}

// tasksAhead returns the tasks to come of a loop in this state, after so many events.
func (o *lookout) tasksAhead(ctx context.Context, s *loop.State, events int) *ahead {
	if o.queue == nil {
		return nil
	}
	if events != o.events || time.Since(o.at) >= aheadEvery {
		var now ahead
		if now.ready, now.notReady, now.err = loop.TasksAhead(ctx, o.queue, s); ctx.Err() == nil {
			o.now, o.at, o.events = now, time.Now(), events
		}
	}
	return &o.now
}

// close closes the store of tasks.
func (o *lookout) close() {
	if o.queue == nil {
		return
	}
	if b, ok := o.queue.Store.(*book.Book); ok {
		b.Close()
	}
}

// taskLines shows a loop's progress with its tasks: how many are done, the current ones, and the tasks
// to come in at most so many lines.
func (p *loopPage) taskLines(most, cols int) []tui.Line {
	if p.Plan.Tasks == nil {
		return nil
	}
	s := p.State
	done, hand := len(s.Closed), len(p.InHand())
	text, all := fmt.Sprintf("%d closed, %d put back", done, len(s.Left)), 0
	if p.ahead != nil && p.ahead.err == nil {
		rest := len(p.ahead.ready) + len(p.ahead.notReady)
		all = done + len(s.Left) + hand + rest
		text = fmt.Sprintf("%d of %d closed, %d put back, %d to come", done, all, len(s.Left), rest)
	}
	page := []tui.Line{progressLine(cols, "tasks", float64(done), float64(all), text)}
	if s.Task != nil {
		page = append(page, labelled("task", tui.Plain.Of(s.Task.ID+" "+term.Opening(s.Task.Title))))
	}
	if p.ahead == nil {
		return page
	}
	if p.ahead.err != nil {
		return append(page, labelled("to come", tui.Yellow.Of(term.Opening(p.ahead.err.Error()))))
	}
	return append(page, p.ahead.pageLines(most)...)
}

// pageLines lists the tasks to come in at most so many lines.
func (a *ahead) pageLines(most int) (page []tui.Line) {
	var list []tui.Line
	for _, t := range a.ready {
		list = append(list, tui.Line{tui.Plain.Of(t.Task + " " + term.Opening(t.Title))})
	}
	for _, t := range a.notReady {
		list = append(list, tui.Line{tui.Plain.Of(t.Task + " " + term.Opening(t.Title)), tui.Dim.Of("  " + t.Waits())})
	}
	if rest := len(list) - most + 1; rest > 1 {
		list = append(list[:most-1], tui.Text(tui.Dim, fmt.Sprintf("and %d more", rest)))
	}
	name := "to come"
	for _, l := range list {
		page = append(page, labelled(name, l...))
		name = ""
	}
	return page
}

// labelled returns a line of the page with its label.
func labelled(name string, l ...tui.Piece) tui.Line {
	return append(tui.Line{tui.Dim.Of(fmt.Sprintf("%-10s ", name))}, l...)
}
