package runview

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/internal/tui"
	"github.com/bothy-dev/bothy/spec"
)

// Watches runs of loops and of flows.

// watchEvery is how often the page is redrawn and events are read.
const watchEvery = 500 * time.Millisecond

// watchedPage is one snapshot of a run.
type watchedPage interface {
	pageLines(rows, cols int, now time.Time) []tui.Line
	isHosted() bool // a process is running it
}

// Watch shows a run until no process runs it any more, or the user interrupts.
func (a *Viewer) Watch(ctx context.Context, l runstate.Run) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, unix.SIGTERM)
	defer stop()
	if a.JSON || !term.IsTerminal(a.Out) {
		return a.follow(ctx, l)
	}
	return a.drawPages(ctx, l)
}

// waitForRefresh waits until the next refresh. It returns false if ctx is canceled.
func waitForRefresh(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(watchEvery):
		return true
	}
}

// follow prints every event, including past ones.
func (a *Viewer) follow(ctx context.Context, l runstate.Run) error {
	r, told := l.Recorded().Run, 0
	describe, err := shownOf(l).narrator()
	if err != nil {
		return err
	}
	var refused refusals
	for {
		hosted := r.Hosted() // before the events, since a host records the end before it exits
		events, err := r.Events()
		if err != nil {
			return err
		}
		for _, ev := range events[told:] {
			text, err := describe(ev)
			if err == nil {
				err = a.printEvent(ev, text)
			}
			if err != nil {
				return err
			}
		}
		told = len(events)
		if err := a.tellRefusal(&refused, l, hosted); err != nil {
			return err
		}
		if !hosted || !waitForRefresh(ctx) {
			return nil
		}
	}
}

// tellRefusal prints why models do not answer, if that has changed and a process is running the run.
func (a *Viewer) tellRefusal(r *refusals, l runstate.Run, hosted bool) error {
	if a.JSON || !hosted {
		return nil
	}
	text := r.Tell(runstate.Denied(l))
	if text == "" {
		return nil
	}
	_, err := fmt.Fprintf(a.Out, "%s  %s\n", time.Now().Format(time.DateTime), text)
	return err
}

// drawPages redraws a page until the run is over.
func (a *Viewer) drawPages(ctx context.Context, l runstate.Run) error {
	look, end := shownOf(l).openPages()
	defer end()
	screen, err := tui.Open(a.Out)
	if err != nil {
		return err
	}
	var page []tui.Line
	for {
		p, err := look(ctx)
		if err != nil {
			return console.Join([]error{err, screen.Close(nil)})
		}
		rows, cols := screen.Size()
		page = p.pageLines(rows, cols, time.Now())
		if !p.isHosted() {
			return screen.Close(page)
		}
		if err := screen.Draw(append(page, nil, tui.Text(tui.Dim, "Ctrl-C leaves; the "+l.Recorded().Run.Kind+" goes on"))); err != nil {
			return console.Join([]error{err, screen.Close(nil)})
		}
		if !waitForRefresh(ctx) {
			return screen.Close(page)
		}
	}
}

// vitals are the parts of a run's state that all kinds share.
type vitals struct {
	id    string
	now   run.Result // as shown to people
	took  time.Duration
	state runstate.Waiter
	used  *run.Usage
	most  flowplan.Limits
}

// statusStyle returns the style of a status.
func (v *vitals) statusStyle() tui.Style {
	switch v.now.Status {
	case run.Running:
		return tui.Cyan
	case run.Completed:
		if v.now.Reason != flow.ReasonSkipped {
			return tui.Green
		}
	case run.Failed, run.Stalled, run.Aborted:
		return tui.Red
	}
	return tui.Yellow
}

// headLines returns the first lines, with those about the run in between.
func (v *vitals) headLines(about ...tui.Line) []tui.Line {
	status := string(v.now.Status)
	if v.now.Reason != "" {
		status += ", " + v.now.Reason
	}
	page := append([]tui.Line{
		{tui.Bold.Of(v.id), tui.Plain.Of("  "), v.statusStyle().Of(status), tui.Dim.Of("  " + v.took.Round(time.Second).String())},
	}, about...)
	if v.now.Detail != "" {
		page = append(page, tui.Text(v.statusStyle(), term.Opening(v.now.Detail)))
	}
	if d, waits := v.state.Waits(); waits {
		page = append(page, tui.Text(tui.Yellow, "waits until "+delayText(d)))
	}
	return append(page, nil)
}

// usageLines shows the usage and its limits.
func (v *vitals) usageLines(cols int, t *outward) []tui.Line {
	tokens, usd := max(v.used.Tokens, t.sum.Counted()), max(v.used.USD, t.sum.USD)
	used, cost := strconv.FormatInt(tokens, 10), cmdline.UsdCell(spec.BillItem{USD: usd, Unpriced: t.sum.Unpriced})+" USD"
	if !v.used.Metered.Known() && t.sum.Answers == 0 && tokens == 0 && usd == 0 {
		used, cost = "-", "-"
	}
	c := cmdline.CellsOf(&v.used.Metered)
	page := []tui.Line{
		append(meterLine(cols, "tokens", float64(tokens), float64(v.most.Tokens), ofText(used, v.most.Tokens > 0, v.most.Tokens)), cmdline.Sides(c.Seen, c.Claimed, v.used.Metered.TokensDiffer())),
		append(meterLine(cols, "cost", usd, v.most.USD, ofText(cost, v.most.USD > 0, v.most.USD)), cmdline.Sides(c.Usd, c.ClaimedUSD, v.used.Metered.USDDiffers())),
	}
	if v.most.Time > 0 {
		page = append(page, meterLine(cols, "time", v.took.Seconds(), time.Duration(v.most.Time).Seconds(),
			ofText(v.took.Round(time.Second).String(), true, time.Duration(v.most.Time))))
	}
	return append(page, nil)
}

func ofText(used string, bounded bool, most any) string {
	if !bounded {
		return used
	}
	return fmt.Sprintf("%s of %v", used, most)
}

// meterLine is a line with a bar for usage with a limit.
func meterLine(cols int, name string, used, most float64, text string) tui.Line {
	if used >= 0.8*most {
		return barLine(cols, name, tui.Yellow, used, most, text)
	}
	return progressLine(cols, name, used, most, text)
}

// progressLine is a line with a bar for progress.
func progressLine(cols int, name string, done, all float64, text string) tui.Line {
	return barLine(cols, name, tui.Green, done, all, text)
}

func barLine(cols int, name string, style tui.Style, part, whole float64, text string) tui.Line {
	l := labelled(name)
	if bar := tui.Bar(min(30, cols/3), part, whole); bar != "" {
		l = append(l, style.Of(bar+" "))
	}
	return append(l, tui.Plain.Of(text))
}

// seconds formats a duration for a column.
func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}
