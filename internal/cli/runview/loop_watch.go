package runview

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/internal/tui"
	"github.com/bothy-dev/bothy/spec"
)

// openPages returns the pages of a watched loop.
func (l shownLoop) openPages() (look func(context.Context) (watchedPage, error), end func()) {
	out := &lookout{queue: runstate.TaskQueueOf(l.Engine, &l.Plan, l.Run)}
	return func(ctx context.Context) (watchedPage, error) { return readLoopPage(ctx, l.Loop, out) }, out.close
}

// loopPage is one snapshot of a loop.
type loopPage struct {
	*runstate.Loop
	past    []tried
	traffic outward
	ahead   *ahead // nil: it takes no tasks, or they are not watched
}

func (p *loopPage) isHosted() bool { return p.Hosted }

// tried is one iteration.
type tried struct {
	number int
	worker int // 0: the only one
	began  time.Time
	work   *loop.Work // nil: it is under way
	keep   *loop.Keep
	judged *loop.Verdict
}

// readLoopPage reads the state of a loop.
func readLoopPage(ctx context.Context, l *runstate.Loop, out *lookout) (*loopPage, error) {
	now, err := runstate.ReadLoop(l.Engine, l.Run)
	if err != nil {
		return nil, err
	}
	p := &loopPage{Loop: now}
	if p.past, err = iterationsOf(now.Events); err != nil {
		return nil, err
	}
	p.ahead = out.tasksAhead(ctx, now.State, len(now.Events))
	p.traffic = showTraffic(runstate.TrafficOf(ctx, now))
	return p, nil
}

// iterationsOf collects the iterations from events.
func iterationsOf(events []run.Event) (list []tried, err error) {
	s, err := loop.Fold(nil)
	for _, ev := range events {
		if err == nil {
			err = s.Add(ev)
		}
		if err != nil {
			return nil, err
		}
		n, w := s.Of(ev)
		if w == nil {
			w = s
		}
		i := slices.IndexFunc(list, func(t tried) bool { return t.number == w.Iteration })
		switch {
		case ev.Type == loop.Iteration:
			if i >= 0 { // it starts again
				list = slices.Delete(list, i, i+1)
			}
			list = append(list, tried{number: w.Iteration, worker: n, began: ev.Time})
		case i >= 0:
			list[i].recordResult(ev.Type, w)
		}
	}
	return list, err
}

// recordResult records the result of an iteration.
func (t *tried) recordResult(kind string, s *loop.State) {
	switch kind {
	case loop.Worked:
		t.work = s.Work
	case loop.Kept:
		t.keep = s.Keep
	case loop.Judged, loop.Reviewed, loop.Rejudged:
		t.judged = s.Verdict
	}
}

// isUnderWay reports whether an iteration is under way: its worker has begun no later one.
func (p *loopPage) isUnderWay(i int) bool {
	later := func(t tried) bool { return t.worker == p.past[i].worker }
	return p.Hosted && !slices.ContainsFunc(p.past[i+1:], later)
}

// pageLines renders the page.
func (p *loopPage) pageLines(rows, cols int, now time.Time) []tui.Line {
	head := p.headLines(rows, cols, now)
	foot := slices.Concat(p.gateLines(), p.footLines())
	room := rows - len(head) - len(foot) - 5
	return slices.Concat(head, p.tableLines(max(3, room), cols, now), foot)
}

func (p *loopPage) headLines(rows, cols int, now time.Time) []tui.Line {
	s, plan := p.State, &p.Plan
	v := &vitals{
		id: p.Run.ID, now: p.Standing(), took: s.Took(s.Status, now), state: s, used: &s.Usage,
		most: flowplan.Limits{Time: plan.Limits.Time, Tokens: plan.Limits.Tokens, USD: plan.Limits.USD},
	}
	page := v.headLines(
		tui.Text(tui.Dim, plan.Agent+" in "+cmp.Or(s.Sandbox, plan.Sandbox)+", "+term.Sanitize(plan.Directory)),
		tui.Text(tui.Plain, term.Opening(promptText(plan))),
	)
	page = append(page, meterLine(cols, "iteration", float64(s.Iteration), float64(plan.Limits.MaxIterations),
		fmt.Sprintf("%d of %d", s.Iteration, plan.Limits.MaxIterations)))
	page = append(page, p.taskLines(max(2, rows/6), cols)...)
	page = append(page, workerLines(runstate.WorkersOf(s), max(4, rows/3))...)
	return append(page, v.usageLines(cols, &p.traffic)...)
}

// workerLines describes the workers in at most so many lines. If not all fit, those with a task
// come first.
func workerLines(list []runstate.Worker, most int) (page []tui.Line) {
	idle := 0
	if len(list) > most {
		busy := slices.DeleteFunc(slices.Clone(list), func(w runstate.Worker) bool { return w.Task == nil })
		idle, list = len(list)-len(busy), busy
	}
	rest := 0
	if len(list) > most-1 && idle+len(list) > most {
		rest, list = len(list)-(most-1), list[:most-1]
	}
	for _, w := range list {
		page = append(page, labelled("worker "+strconv.Itoa(w.Worker), tui.Plain.Of(workerText(w))))
	}
	var more []string
	if rest > 0 {
		more = append(more, fmt.Sprintf("%d more at work", rest))
	}
	if idle > 0 {
		more = append(more, fmt.Sprintf("%d idle", idle))
	}
	if len(more) > 0 {
		page = append(page, tui.Text(tui.Dim, fmt.Sprintf("%-10s %s", "and", strings.Join(more, ", "))))
	}
	return page
}

// tableLines lists the latest iterations, newest first.
func (p *loopPage) tableLines(most, cols int, now time.Time) []tui.Line {
	if len(p.past) == 0 {
		if b := p.State.Baseline; b != nil {
			return []tui.Line{tui.Text(tui.Dim, "before the first iteration: "+gatesText(&p.Plan, b)), nil}
		}
		return []tui.Line{tui.Text(tui.Dim, "the sandbox is made, and the gates are asked"), nil}
	}
	page := []tui.Line{tui.Text(tui.Dim, fmt.Sprintf("%4s  %7s  %s%5s  %s", "#", "took", cmdline.MeterTitle(cols), "files", "what became of it"))}
	for i, t := range slices.Backward(p.past) {
		if len(p.past)-i > most {
			page = append(page, tui.Text(tui.Dim, fmt.Sprintf("%4s  and %d before", "", i+1)))
			break
		}
		page = append(page, t.iterationLine(&p.Plan, p.meteredOf(t.number), p.traffic.denied, p.isUnderWay(i), cols, now))
	}
	return append(page, nil)
}

// meteredOf returns an iteration's usage until now, with all its attempts.
func (p *loopPage) meteredOf(iteration int) *spec.Metered {
	for i := range p.Spent {
		if p.Spent[i].Iteration == iteration {
			return &p.Spent[i].Metered
		}
	}
	return &spec.Metered{}
}

func (t *tried) iterationLine(p *loopplan.Plan, m *spec.Metered, denied *spec.Limited, under bool, cols int, now time.Time) tui.Line {
	took, changed := "", ""
	text, style := "cut short", tui.Yellow
	switch {
	case t.work != nil:
		took = seconds(t.work.Seconds)
		text, style = became(t.work)
	case under:
		took, text, style = now.Sub(t.began).Round(time.Second).String(), "works", tui.Cyan
		if denied != nil && !denied.At.Before(t.began) {
			text, style = "asks a model that does not answer", tui.Yellow
		}
	}
	if t.keep != nil {
		changed = strconv.Itoa(t.keep.Changes)
	}
	if t.worker > 0 {
		text = fmt.Sprintf("worker %d: %s", t.worker, text)
	}
	l := tui.Line{tui.Plain.Of(fmt.Sprintf("%4d  %7s  ", t.number, took))}
	l = append(l, cmdline.MeterColumns(m, t.work != nil || !under, cols)...)
	l = append(l, tui.Plain.Of(fmt.Sprintf("%5s  ", changed)), style.Of(text))
	if t.judged != nil {
		if red := len(t.judged.Red()); red > 0 {
			return append(l, tui.Red.Of(fmt.Sprintf(", %d of %d red", red, len(t.judged.Gates))))
		}
		if rest := unasked(p, t.judged); len(rest) > 0 {
			return append(l, tui.Green.Of(fmt.Sprintf(", %d of %d green", len(t.judged.Gates), len(t.judged.Gates)+len(rest))))
		}
		return append(l, tui.Green.Of(", all green"))
	}
	return l
}

// became says in a few words how the agent described its work.
func became(w *loop.Work) (string, tui.Style) {
	switch {
	case w.Verdict == spec.VerdictLimit && w.Overloaded:
		return "its provider was overloaded", tui.Yellow
	case w.Verdict == spec.VerdictLimit:
		return "its allowance was used up", tui.Yellow
	case w.Verdict != spec.VerdictOK:
		return "failed: " + term.Opening(w.Error), tui.Red
	case w.Abort:
		return "gives up", tui.Red
	case w.Done:
		return "says it is done", tui.Green
	}
	return unsaidText(w), tui.Plain
}

// gateLines shows the latest verdict of each gate.
func (p *loopPage) gateLines() (page []tui.Line) {
	v := p.State.LastVerdict()
	if v == nil && len(p.State.Beneath) > 0 {
		return []tui.Line{{tui.Yellow.Of("not asked  "), tui.Plain.Of("of what there is: " + BeneathText(p.State))}}
	}
	if v == nil {
		return nil
	}
	for _, g := range v.Gates {
		if g.Green {
			page = append(page, tui.Line{tui.Green.Of("green      "), tui.Plain.Of(g.Name)})
			continue
		}
		page = append(page, tui.Line{tui.Red.Of("red        "), tui.Plain.Of(g.Name), tui.Dim.Of("  " + term.Opening(g.Why))})
		for _, line := range lastLines(g.Output, 3) {
			page = append(page, tui.Text(tui.Dim, "           "+line))
		}
	}
	for _, id := range yetToSay(&p.Plan, p.State) {
		style := tui.Dim
		if p.State.Reviewing == id {
			style = tui.Cyan
		}
		page = append(page, tui.Line{style.Of(fmt.Sprintf("%-9s  ", reviewerState(p.State, id))), tui.Plain.Of(id), tui.Dim.Of("  " + p.Plan.Reviewer(id))})
	}
	return page
}

// lastLines returns the last nonblank lines of a text.
func lastLines(text string, most int) []string {
	lines := slices.DeleteFunc(strings.Split(text, "\n"), func(l string) bool { return strings.TrimSpace(l) == "" })
	return lines[max(0, len(lines)-most):]
}

func (p *loopPage) footLines() []tui.Line {
	page := p.traffic.pageLines()
	if text := stuckText(&p.Plan, p.State); text != "" {
		page = append(page, tui.Line{tui.Yellow.Of("stuck      "), tui.Plain.Of(text)})
	}
	if p.Pause {
		page = append(page, tui.Line{tui.Yellow.Of("pause      "), tui.Plain.Of("after this iteration")})
	}
	for _, h := range p.State.Hints {
		page = append(page, tui.Line{tui.Cyan.Of("hint       "), tui.Plain.Of(term.Opening(h))})
	}
	return page
}
