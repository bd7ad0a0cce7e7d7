package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/cli/command"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/internal/tui"
	"github.com/bothy-dev/bothy/spec"
)

// watchEvery is how often a page is drawn anew, and looked for events.
const watchEvery = 500 * time.Millisecond

func (a *app) loopWatchCommand() *command.Command {
	return a.jsonFlag(&command.Command{
		Use: "watch [RUN]", Short: "Watch a loop until nobody carries it on", Args: atMost(1, "a run"), Complete: a.oneRun(run.Loops),
		Long: "Shows how a loop stands, on a page that is drawn anew as it goes on; without RUN the\nnewest. Where there is no terminal, or with --json, every event as it comes. It ends when\nnobody carries the loop on any more; Ctrl-C leaves, and the loop goes on.",
		RunE: func(cmd *command.Command, args []string) error {
			l, err := a.loopCalled(strings.Join(args, ""))
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, unix.SIGTERM)
			defer stop()
			if a.json || !term.IsTerminal(a.stdout) {
				return a.followLoop(ctx, l)
			}
			return a.drawLoop(ctx, l)
		},
	})
}

// pause waits until it is time to look again. It is false if there is no reason to.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(watchEvery):
		return true
	}
}

// followLoop tells every event, those of the past first.
func (a *app) followLoop(ctx context.Context, l *looping) error {
	s, err := loop.Fold(nil)
	told := 0
	for err == nil {
		hosted := l.run.Hosted() // before the events: who ends writes that before it goes
		events, err := l.run.Events()
		if err != nil {
			return err
		}
		for _, ev := range events[told:] {
			if err = s.Add(ev); err == nil {
				err = a.printRunEvent(ev, lineOf(&l.plan, ev, s))
			}
			if err != nil {
				return err
			}
		}
		told = len(events)
		if !hosted || !pause(ctx) {
			return nil
		}
	}
	return err
}

// drawLoop draws a page until there is nothing more to see.
func (a *app) drawLoop(ctx context.Context, l *looping) error {
	screen, err := tui.Open(a.stdout)
	if err != nil {
		return err
	}
	var page []tui.Line
	for {
		p, err := a.look(ctx, l)
		if err != nil {
			return only([]error{err, screen.Close(nil)})
		}
		rows, cols := screen.Size()
		page = p.lines(rows, cols, time.Now())
		if !p.hosted {
			return screen.Close(page)
		}
		if err := screen.Draw(append(page, nil, tui.Text(tui.Dim, "Ctrl-C leaves; the loop goes on"))); err != nil {
			return only([]error{err, screen.Close(nil)})
		}
		if !pause(ctx) {
			return screen.Close(page)
		}
	}
}

// watched is what is seen of a loop at a time.
type watched struct {
	*looping
	past    []tried
	bill    spec.Bill
	refused []string // whom the sandbox could not reach, with how often
}

// tried is one iteration.
type tried struct {
	number int
	began  time.Time
	work   *loop.Work // nil: it is under way
	keep   *loop.Keep
	judged *loop.Verdict
}

// look reads how a loop stands.
func (a *app) look(ctx context.Context, l *looping) (*watched, error) {
	now, err := readLoop(l.engine, l.run)
	if err != nil {
		return nil, err
	}
	p := &watched{looping: now}
	if p.past, err = tries(now.events); err != nil {
		return nil, err
	}
	sb, err := l.engine.Find(now.plan.Sandbox)
	if err != nil {
		return p, nil //nolint:nilerr // it is not there yet, or not any more
	}
	if p.bill, err = l.engine.Bill(ctx, sb); err != nil && ctx.Err() == nil {
		p.refused = []string{err.Error()}
		return p, nil
	}
	refused := map[string]int{}
	_ = l.engine.NetworkRecords(sb, func(r *spec.NetworkRecord) { // a log that cannot be read is no reason to look away
		if r.Verdict == spec.VerdictDeny && r.Time.After(l.since) {
			refused[term.Sanitize(recordHost(r))]++
		}
	})
	for host, n := range refused {
		p.refused = append(p.refused, fmt.Sprintf("%s (%d)", host, n))
	}
	slices.Sort(p.refused)
	return p, nil
}

// tries are the iterations that events tell of.
func tries(events []run.Event) (list []tried, err error) {
	s, err := loop.Fold(nil)
	for _, ev := range events {
		if err == nil {
			err = s.Add(ev)
		}
		if err != nil {
			return nil, err
		}
		if ev.Type == loop.Iteration {
			if n := len(list); n > 0 && list[n-1].number == s.Iteration { // it is begun again
				list = list[:n-1]
			}
			list = append(list, tried{number: s.Iteration, began: ev.Time})
			continue
		}
		if len(list) == 0 {
			continue
		}
		switch last := &list[len(list)-1]; ev.Type {
		case loop.Worked:
			last.work = s.Work
		case loop.Kept:
			last.keep = s.Keep
		case loop.Judged, loop.Reviewed:
			last.judged = s.Verdict
		}
	}
	return list, err
}

// lines are the page.
func (p *watched) lines(rows, cols int, now time.Time) []tui.Line {
	head := p.head(cols, now)
	foot := slices.Concat(p.gates(), p.foot())
	room := rows - len(head) - len(foot) - 5
	return slices.Concat(head, p.table(max(3, room), now), foot)
}

func (p *watched) head(cols int, now time.Time) []tui.Line {
	s, plan := p.state, &p.plan
	status, style := string(s.Status), tui.Yellow
	if s.Reason != "" {
		status += ", " + s.Reason
	}
	switch s.Status {
	case loop.Running:
		style = tui.Cyan
	case loop.Completed:
		style = tui.Green
	case loop.Failed, loop.Stalled, loop.Aborted:
		style = tui.Red
	}
	elapsed := time.Duration(s.Elapsed)
	if s.Status == loop.Running {
		elapsed += max(0, now.Sub(s.Last))
	}
	page := []tui.Line{
		{tui.Bold.Of(p.run.ID), tui.Plain.Of("  "), style.Of(status), tui.Dim.Of("  " + elapsed.Round(time.Second).String())},
		{tui.Dim.Of(plan.Agent + " in " + cmp.Or(s.Sandbox, plan.Sandbox) + ", " + plan.Directory)},
		{tui.Plain.Of(opening(plan.Prompt))},
	}
	if s.Detail != "" {
		page = append(page, tui.Text(style, opening(s.Detail)))
	}
	if !s.Until.IsZero() {
		page = append(page, tui.Text(tui.Yellow, "waits until "+s.Until.Local().Format(time.DateTime)))
	}
	page = append(page, nil, p.meter(cols, "iteration", float64(s.Iteration), float64(plan.Limits.MaxIterations),
		fmt.Sprintf("%d of %d", s.Iteration, plan.Limits.MaxIterations)))
	sum := p.bill.Total()
	tokens := max(s.Tokens, sum.Counted())
	page = append(page, p.meter(cols, "tokens", float64(tokens), float64(plan.Limits.Tokens), ofText(strconv.FormatInt(tokens, 10), plan.Limits.Tokens > 0, plan.Limits.Tokens)))
	usd := max(s.USD, sum.USD)
	page = append(page, p.meter(cols, "cost", usd, plan.Limits.USD, ofText(usdCell(spec.BillItem{USD: usd, Unpriced: sum.Unpriced})+" USD", plan.Limits.USD > 0, plan.Limits.USD)))
	if plan.Limits.Time > 0 {
		page = append(page, p.meter(cols, "time", elapsed.Seconds(), time.Duration(plan.Limits.Time).Seconds(),
			ofText(elapsed.Round(time.Second).String(), true, time.Duration(plan.Limits.Time))))
	}
	return append(page, nil)
}

func ofText(used string, bounded bool, most any) string {
	if !bounded {
		return used
	}
	return fmt.Sprintf("%s of %v", used, most)
}

// meter is a line with a bar, if there is a bound.
func (p *watched) meter(cols int, name string, used, most float64, text string) tui.Line {
	l := tui.Line{tui.Dim.Of(fmt.Sprintf("%-10s ", name))}
	if bar := tui.Bar(min(30, cols/3), used, most); bar != "" {
		style := tui.Green
		if used >= 0.8*most {
			style = tui.Yellow
		}
		l = append(l, style.Of(bar+" "))
	}
	return append(l, tui.Plain.Of(text))
}

// table are the latest iterations, the newest first.
func (p *watched) table(most int, now time.Time) []tui.Line {
	if len(p.past) == 0 {
		if b := p.state.Baseline; b != nil {
			return []tui.Line{tui.Text(tui.Dim, "before the first iteration: "+gatesText(b)), nil}
		}
		return []tui.Line{tui.Text(tui.Dim, "the sandbox is made, and the gates are asked"), nil}
	}
	page := []tui.Line{tui.Text(tui.Dim, fmt.Sprintf("%4s  %8s  %9s  %7s  %s", "#", "took", "tokens", "changed", "what became of it"))}
	for i, t := range slices.Backward(p.past) {
		if len(p.past)-i > most {
			page = append(page, tui.Text(tui.Dim, fmt.Sprintf("%4s  and %d before", "", i+1)))
			break
		}
		page = append(page, t.line(p.hosted && i == len(p.past)-1, now))
	}
	return append(page, nil)
}

func (t *tried) line(under bool, now time.Time) tui.Line {
	took, tokens, changed := "", "", ""
	text, style := "cut short", tui.Yellow
	switch {
	case t.work != nil:
		took, tokens = time.Duration(t.work.Seconds*float64(time.Second)).Round(time.Second).String(), strconv.FormatInt(t.work.Tokens, 10)
		text, style = became(t.work)
	case under:
		took, text, style = now.Sub(t.began).Round(time.Second).String(), "works", tui.Cyan
	}
	if t.keep != nil {
		changed = strconv.Itoa(t.keep.Changes)
	}
	l := tui.Line{tui.Plain.Of(fmt.Sprintf("%4d  %8s  %9s  %7s  ", t.number, took, tokens, changed)), style.Of(text)}
	if t.judged != nil {
		if red := len(t.judged.Red()); red > 0 {
			return append(l, tui.Red.Of(fmt.Sprintf(", %d of %d gates red", red, len(t.judged.Gates))))
		}
		return append(l, tui.Green.Of(", all gates green"))
	}
	return l
}

// became is what an agent said of its work, in a few words.
func became(w *loop.Work) (string, tui.Style) {
	switch {
	case w.Verdict == spec.VerdictLimit:
		return "its allowance was used up", tui.Yellow
	case w.Verdict != spec.VerdictOK:
		return "failed: " + opening(w.Error), tui.Red
	case w.Abort:
		return "gives up", tui.Red
	case w.Done:
		return "says that it is done", tui.Green
	}
	return "ended, not done", tui.Plain
}

// gates are what they said the last time.
func (p *watched) gates() (page []tui.Line) {
	v := p.state.Verdict
	if v == nil {
		v = p.state.Baseline
	}
	if v == nil {
		return nil
	}
	if id := p.state.Reviewing; id != "" {
		page = append(page, tui.Line{tui.Cyan.Of("asked  "), tui.Plain.Of(id), tui.Dim.Of("  " + p.plan.Reviewer(id))})
	}
	for _, g := range v.Gates {
		if g.Green {
			page = append(page, tui.Line{tui.Green.Of("green  "), tui.Plain.Of(g.Name)})
			continue
		}
		page = append(page, tui.Line{tui.Red.Of("red    "), tui.Plain.Of(g.Name), tui.Dim.Of("  " + opening(g.Why))})
		for _, line := range lastLines(g.Output, 3) {
			page = append(page, tui.Text(tui.Dim, "       "+line))
		}
	}
	return page
}

// lastLines are the last lines of a text that say something.
func lastLines(text string, most int) []string {
	lines := slices.DeleteFunc(strings.Split(text, "\n"), func(l string) bool { return strings.TrimSpace(l) == "" })
	return lines[max(0, len(lines)-most):]
}

func (p *watched) foot() (page []tui.Line) {
	if len(p.refused) > 0 {
		page = append(page, tui.Line{tui.Yellow.Of("refused  "), tui.Plain.Of(strings.Join(p.refused, ", "))})
	}
	for _, h := range p.state.Hints {
		page = append(page, tui.Line{tui.Cyan.Of("hint     "), tui.Plain.Of(opening(h))})
	}
	return page
}
