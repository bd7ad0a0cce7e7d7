package runview

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// Describes the past iterations of a loop, and how it got stuck.

// maxSpent is how many iterations are shown to people: the last ones.
const maxSpent = 10

// printUsage prints the usage of the last iterations.
func (l shownLoop) printUsage(a *Viewer) error {
	if len(l.Spent) == 0 {
		return nil
	}
	tasks, turns := l.Plan.Tasks != nil, len(l.Plan.Models) > 1
	title := []string{"ITERATION"}
	if tasks {
		title = append(title, "TASK")
	}
	if turns {
		title = append(title, "BY")
	}
	title = append(title, "TOOK", "TOOLS", "FILES")
	w := a.Table()
	fmt.Fprintln(w, "\n"+strings.Join(append(title, cmdline.MeterTitles[:]...), "\t"))
	each := make([]spec.Metered, 0, len(l.Spent))
	for i, p := range l.Spent {
		each = append(each, p.Metered)
		if i < len(l.Spent)-maxSpent {
			continue
		}
		row := []string{strconv.Itoa(p.Iteration)}
		if p.Iteration > l.State.Iteration { // discarded by a rewind
			row[0] += " (put back)"
		}
		if tasks {
			row = append(row, cmdline.Dash(p.Task))
		}
		if turns {
			row = append(row, cmp.Or(p.Agent, l.Plan.Agent)+":"+p.Model)
		}
		row = append(row, workedCells(&p)...)
		for n, cell := range row {
			row[n] = term.Sanitize(cell)
		}
		fmt.Fprintln(w, strings.Join(append(row, cmdline.CellsOf(&p.Metered).String()), "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	a.ExplainMetered(&l.State.Metered, each...)
	return nil
}

// workedCells formats how long an agent worked, its tool calls and its changed files. An iteration
// without an end has "-", since the numbers are unknown.
func workedCells(p *loop.Spent) []string {
	if p.Seconds == 0 {
		return []string{"-", "-", "-"}
	}
	return []string{Rounded(time.Duration(p.Seconds * float64(time.Second))), strconv.Itoa(p.Calls), strconv.Itoa(p.Changes)}
}

// promiseText returns the words by which the agent says that it is done, and that it gives up, if it
// may.
func promiseText(p *loopplan.Plan) string {
	if p.Abort == "" {
		return p.Promise
	}
	return p.Promise + ", or to give up " + p.Abort
}

// stuckText names the counters that have not moved for several iterations, and the limits at which
// the loop ends. It is empty if all is well, or over.
func stuckText(p *loopplan.Plan, s *loop.State) string {
	if s.Final() || s.Status == run.Stalled {
		return ""
	}
	var list []string
	for _, x := range []struct {
		n, most int
		what    string
	}{
		{s.Unchanged, p.Stall.Unchanged, "no file was changed in %d iterations"},
		{s.SameRed, p.Stall.SameRed, "the same gates said the same %d times"},
		{s.SameError, p.Stall.SameError, "the agent failed %d times in the same way"},
		{s.Asked, p.Stall.Questions, "%d iterations in a row ended with a question"},
	} {
		if x.n < 2 {
			continue
		}
		text := fmt.Sprintf(x.what, x.n)
		if x.most > 0 {
			text += fmt.Sprintf(", of %d", x.most)
		}
		list = append(list, text)
	}
	return strings.Join(list, "; ")
}
