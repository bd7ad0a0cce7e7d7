package runview

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/internal/tui"
	"github.com/bothy-dev/bothy/spec"
)

// openPages returns the pages of a watched flow.
func (l shownFlow) openPages() (look func(context.Context) (watchedPage, error), end func()) {
	return func(ctx context.Context) (watchedPage, error) {
		now, err := runstate.ReadFlow(l.Engine, l.Run)
		if err != nil {
			return nil, err
		}
		p := &flowPage{Flow: now, tries: triesOf(now.Events)}
		p.traffic = showTraffic(runstate.TrafficOf(ctx, now))
		return p, nil
	}, func() {}
}

// flowPage is one snapshot of a flow.
type flowPage struct {
	*runstate.Flow
	tries   map[string]*stepTries
	traffic outward
}

func (p *flowPage) isHosted() bool { return p.Hosted }

// stepTries sums up the attempts at a step.
type stepTries struct {
	began   time.Time // of the last
	seconds float64
}

// triesOf collects the attempts by step from events.
func triesOf(events []run.Event) map[string]*stepTries {
	all := map[string]*stepTries{}
	var since time.Time // start of the current host process
	for _, ev := range events {
		if ev.Type == run.Began {
			since = ev.Time
		}
		var w flow.Work // has the common fields of all of them
		if ev.Type != flow.Started && ev.Type != flow.Worked && ev.Type != flow.Cut || json.Unmarshal(ev.Data, &w) != nil {
			continue
		}
		t := all[w.Step]
		if t == nil {
			t = &stepTries{}
			all[w.Step] = t
		}
		if ev.Type == flow.Started {
			t.began = ev.Time
			continue
		}
		if t.began.Before(since) { // its host died, so its real work time is unknown
			t.began = since
		}
		t.seconds += ev.Time.Sub(t.began).Seconds()
	}
	return all
}

// pageLines renders the page.
func (p *flowPage) pageLines(rows, cols int, now time.Time) []tui.Line {
	head, foot := p.headLines(cols, now), p.footLines()
	room := max(3, rows-len(head)-len(foot)-4)
	return slices.Concat(head, p.tableLines(room, cols, now), foot)
}

func (p *flowPage) headLines(cols int, now time.Time) []tui.Line {
	s, plan := p.State, &p.Plan
	v := &vitals{id: p.Run.ID, now: p.Standing(), took: s.Took(s.Status, now), state: s, used: &s.Usage, most: plan.Limits}
	page := v.headLines(
		tui.Text(tui.Dim, term.Sanitize(plan.File+", "+cmp.Or(plan.Directory, "on nothing of this host"))),
		tui.Text(tui.Plain, term.Opening(cmp.Or(plan.Flow.Description, plan.Flow.Name))),
	)
	settled := 0
	for _, st := range s.Steps {
		if st.Status == run.Completed || st.Status == flow.Passed {
			settled++
		}
	}
	text := fmt.Sprintf("%d of %d", settled, len(s.Steps))
	if n := p.AtWork(); n > 0 && plan.Most() > 1 {
		text += fmt.Sprintf(", %d at work", n)
	}
	page = append(page, meterLine(cols, "steps", float64(settled), 0, text))
	if list := s.Elements(); len(list) > 0 {
		counts := map[run.Status]int{}
		for _, e := range list {
			counts[e.Status]++
		}
		text := fmt.Sprintf("%d of %d", counts[run.Completed], len(list))
		if n := counts[flow.Passed]; n > 0 {
			text += fmt.Sprintf(", %d skipped", n)
		}
		page = append(page, meterLine(cols, list[0].Group, float64(counts[run.Completed]), float64(len(list)), text))
	}
	return append(page, v.usageLines(cols, &p.traffic)...)
}

// tableLines renders the steps in order, and those of an element only while it is under way.
func (p *flowPage) tableLines(most, cols int, now time.Time) []tui.Line {
	type place struct{ group, element string }
	elements := map[place]flow.ElementState{}
	for _, e := range p.State.Elements() {
		elements[place{e.Group, e.ID}] = e
	}
	page := []tui.Line{tui.Text(tui.Dim, fmt.Sprintf("  %7s  %s%5s  %s", "took", cmdline.MeterTitle(cols), "tries", "step"))}
	at, first, last := 0, -1, place{} // the line in progress, and the first running step
	for _, st := range p.State.Steps {
		here := place{st.Group, st.Element}
		e, in := elements[here]
		if in && last != here {
			page, last = append(page, p.element(e, cols, now)), here
		}
		if in && !underWay(e.Status) {
			continue
		}
		indent := ""
		if in {
			indent = "  "
		}
		page = append(page, p.stepLine(st, indent, cols, now))
		if st.Status != flow.Pending {
			at = len(page) - 2 // without the title line
		}
		if st.Status == run.Running && first < 0 {
			first = at
		}
	}
	if first >= 0 { // keep it visible, with its element if there is room, below lines that are not running
		at = min(at, first-min(2, most/2)+most/2)
	}
	return append(window(page, at, most), nil)
}

// window cuts a page to most lines around a line, and keeps the first line.
func window(page []tui.Line, at, most int) []tui.Line {
	rest := page[1:]
	if len(rest) <= most {
		return page
	}
	from := max(0, min(at-most/2, len(rest)-most))
	out := append([]tui.Line{page[0]}, rest[from:from+most]...)
	if from > 0 {
		out[1] = tui.Text(tui.Dim, fmt.Sprintf("  and %d before", from+1))
	}
	if left := len(rest) - from - most; left > 0 {
		out[len(out)-1] = tui.Text(tui.Dim, fmt.Sprintf("  and %d more", left+1))
	}
	return out
}

// underWay reports whether the steps of an element are shown.
func underWay(s run.Status) bool { return s == run.Running || s == run.Waiting }

// flowMark returns the mark of a status, which also works without colors.
func flowMark(s run.Status) (mark tui.Piece, known bool) {
	switch s {
	case flow.Pending:
		return tui.Dim.Of("·"), true
	case run.Running:
		return tui.Cyan.Of("▶"), true
	case run.Waiting:
		return tui.Yellow.Of("?"), true
	case run.Completed:
		return tui.Green.Of("✓"), true
	case run.Failed:
		return tui.Red.Of("✗"), true
	case flow.Passed:
		return tui.Dim.Of("–"), true
	}
	return mark, false
}

// element renders the line of an element, with the sums of its steps.
func (p *flowPage) element(e flow.ElementState, cols int, now time.Time) tui.Line {
	tries, took := 0, 0.0
	for _, st := range p.State.Steps {
		if st.Group == e.Group && st.Element == e.ID {
			tries += st.Attempts
			if t := p.tries[st.ID]; t != nil {
				took += p.stepSeconds(st, t, now)
			}
		}
	}
	mark, _ := flowMark(e.Status)
	if e.Status == flow.Passed {
		mark = tui.Red.Of("!") // a person has to look at it
	}
	l := append(tui.Line{mark}, columnsOf(tries, took, &e.Metered, cols)...)
	l = append(l, tui.Bold.Of(strings.TrimSpace(e.ID+" "+term.Opening(e.Title))))
	if e.Why != "" {
		l = append(l, tui.Red.Of("  "+term.Opening(e.Why)))
	}
	return l
}

// stepLine renders the line of a step.
func (p *flowPage) stepLine(st *flow.StepState, indent string, cols int, now time.Time) tui.Line {
	took := 0.0
	if t := p.tries[st.ID]; t != nil {
		took = p.stepSeconds(st, t, now)
	}
	mark, ok := flowMark(st.Status)
	if !ok {
		mark = tui.Plain.Of(string(st.Status))
	}
	l := append(tui.Line{mark}, columnsOf(st.Attempts, took, &st.Metered, cols)...)
	l = append(l, tui.Plain.Of(indent+st.ID), tui.Dim.Of(timeText(st)))
	switch {
	case st.Status == run.Running && !p.Hosted:
		return append(l, tui.Yellow.Of("  cut short"))
	case st.Status == run.Running && len(st.Missing) > 0:
		return append(l, tui.Dim.Of("  after: "+term.Opening(st.Missing[0])))
	}
	return append(l, tui.Dim.Of(stepText(st)))
}

// stepSeconds returns how long the attempts at a step took, including a running one.
func (p *flowPage) stepSeconds(st *flow.StepState, t *stepTries, now time.Time) float64 {
	if st.Status == run.Running && p.Hosted {
		return t.seconds + max(0, now.Sub(t.began).Seconds())
	}
	return t.seconds
}

// columnsOf renders the cost of attempts, empty without any. The models' part is empty if none was
// asked.
func columnsOf(tries int, took float64, m *spec.Metered, cols int) tui.Line {
	time, count := "", ""
	if tries > 0 {
		time, count = seconds(took), strconv.Itoa(tries)
	}
	l := append(tui.Line{tui.Plain.Of(fmt.Sprintf(" %7s  ", time))}, cmdline.MeterColumns(m, *m != spec.Metered{}, cols)...)
	return append(l, tui.Plain.Of(fmt.Sprintf("%5s  ", count)))
}

func (p *flowPage) footLines() []tui.Line {
	page := p.traffic.pageLines()
	for _, st := range p.State.Questions() {
		page = append(page, tui.Line{tui.Yellow.Of("waits      "), tui.Plain.Of(st.ID + ": " + term.Opening(st.Message))})
	}
	if next := p.NextCommand(); next != "" {
		page = append(page, tui.Line{tui.Yellow.Of("next       "), tui.Plain.Of(next)})
	}
	return page
}
