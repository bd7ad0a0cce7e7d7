package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/review"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

func (a *app) loopLsCommand() *cobra.Command {
	return a.jsonFlag(&cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List loops, the newest first", Args: exactly(0, "no argument"),
		RunE: func(*cobra.Command, []string) error {
			e, err := a.engine()
			if err != nil {
				return err
			}
			views, err := runsOf(a, e, run.Loops, loopViewOf)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(map[string]any{"runs": views})
			}
			w := a.table()
			fmt.Fprintln(w, "RUN\tSTATUS\tITERATION\tAGENT\tSANDBOX\tDIRECTORY")
			for _, v := range views {
				fmt.Fprintf(w, "%s\t%s\t%d/%d\t%s\t%s\t%s\n", v.ID, v.Status, v.Iteration, v.Plan.Limits.MaxIterations, v.Plan.Agent, dash(v.Sandbox), term.Sanitize(v.Plan.Directory))
			}
			return w.Flush()
		},
	})
}

func (a *app) loopStatusCommand() *cobra.Command {
	var tasks bool
	c := &cobra.Command{
		Use: "status [RUN]", Short: "Show how a loop stands; without RUN the newest", Args: atMost(1, "a run"), ValidArgsFunction: a.oneRun(run.Loops),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := a.loopCalled(strings.Join(args, ""))
			if err != nil {
				return err
			}
			if !a.json {
				err = a.loopTable(l)
			}
			switch {
			case err != nil:
				return err
			case tasks:
				return a.loopTasks(cmd.Context(), l)
			case a.json:
				return a.printJSON(l.view())
			}
			return nil
		},
	}
	c.Flags().BoolVar(&tasks, "tasks", false, "also the tasks that it takes its work from; with --json those alone")
	return a.jsonFlag(c)
}

// loopTable shows people how a loop stands, and what it took.
func (a *app) loopTable(l *looping) error {
	w := a.table()
	for _, row := range l.rows() {
		fmt.Fprintf(w, "%s\t%s\n", row[0], term.Line(row[1]))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return a.spentTable(l)
}

// loopTasks shows the tasks that a loop takes its work from: those it has closed, has in
// hand or has put back, and those that are still to come. There may be none.
func (a *app) loopTasks(ctx context.Context, l *looping) error {
	t := &taskCall{app: a}
	g, list := task.NewGraph(), []*task.Task{}
	if d := deskOf(l.engine, &l.plan, l.run); d != nil {
		var err error
		if g, err = d.Store.View(ctx); err != nil {
			return err
		}
		list = l.tasksOf(g)
	}
	used, err := loop.Tolls(l.events)
	switch {
	case err != nil:
		return err
	case a.json:
		return t.printTasks(g, list, l.aboutTasks(used))
	case l.plan.Tasks == nil:
		a.note("the run %s takes no tasks; bothy task ls lists those of a project", l.run.ID)
		return nil
	}
	fmt.Fprintln(a.stdout)
	return cmp.Or(t.taskTable(g, list), a.tollTable(used))
}

// tasksOf are those that a loop has to do with.
func (l *looping) tasksOf(g *task.Graph) (list []*task.Task) {
	known := map[string]bool{}
	for _, f := range l.state.Closed {
		known[f.Task] = true
	}
	for _, f := range l.state.Left {
		known[f.Task] = true
	}
	for _, id := range l.inHand() {
		known[id] = true
	}
	choice := task.Filter{Labels: l.plan.Tasks.Labels}
	for _, x := range g.All() {
		if known[x.ID] || x.Status != task.Closed && choice.Matches(g, x) {
			list = append(list, x)
		}
	}
	return list
}

// inHand are the tasks that somebody works at.
func (l *looping) inHand() []string {
	hands := []string{}
	for _, w := range append([]*loop.State{l.state}, l.state.Workers...) {
		if w.Task != nil {
			hands = append(hands, w.Task.ID)
		}
	}
	return hands
}

// aboutTasks is what a loop has done with tasks, in JSON.
func (l *looping) aboutTasks(used []loop.Toll) map[string]any {
	s := l.state
	about := map[string]any{
		"closed_tasks": append([]loop.Finished{}, s.Closed...), "put_back": append([]loop.Left{}, s.Left...),
		"used": append([]loop.Toll{}, used...),
	}
	if s.Task != nil {
		about["task"] = s.Task.ID
	}
	if len(s.Workers) > 0 {
		about["tasks_in_hand"] = l.inHand()
	}
	return about
}

// tollTable prints what tasks took, if any was taken.
func (a *app) tollTable(list []loop.Toll) error {
	if len(list) == 0 {
		return nil
	}
	w := a.table()
	fmt.Fprintln(w, "\nID\tITERATIONS\t"+strings.Join(meterTitles[:], "\t"))
	var all spec.Metered
	each := make([]spec.Metered, 0, len(list))
	for _, t := range list {
		fmt.Fprintf(w, "%s\t%d\t%s\n", t.Task, t.Iterations, cellsOf(&t.Metered))
		all.Add(t.Metered)
		each = append(each, t.Metered)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	a.explainMetered(&all, each...)
	return nil
}

// rows are how a loop stands, for people.
func (l *looping) rows() [][2]string {
	s, p := l.state, &l.plan
	status, reason := l.standing()
	status = statusText(status, reason, s.Detail)
	took := time.Duration(s.Elapsed)
	if l.hosted {
		took = s.Took(time.Now())
	}
	if l.pause {
		status += ", and is to pause after this iteration"
	}
	rows := [][2]string{
		{"run", l.run.ID},
		{"status", status},
		{"iteration", fmt.Sprintf("%d/%d", s.Iteration, p.Limits.MaxIterations)},
		{"agent", strings.Join(append([]string{p.Agent}, p.Others()...), ", ")},
		{"sandbox", cmp.Or(s.Sandbox, p.Sandbox)},
		{"directory", term.Sanitize(p.Directory)},
		{"began", l.since.Local().Format(time.DateTime)},
		{"took", roundly(took)},
	}
	rows = append(rows, limitRow(p.Limits.Time, p.Limits.Tokens, p.Limits.USD, l.raised)...)
	rows = append(rows, meteredRows(s.Tokens, s.USD, &s.Metered)...)
	rows = append(rows, leftRow(l.run, l.left())...)
	rows = append(rows, [2]string{"prompt", term.Opening(promptText(p))}, [2]string{"promise", promiseText(p)})
	for _, w := range workersOf(s) {
		rows = append(rows, [2]string{fmt.Sprintf("worker %d", w.Worker), strings.TrimPrefix(w.Sandbox+"  "+w.text(), "  ")})
	}
	for _, at := range s.Places {
		if at.Worker > 0 { // whose row tells
			continue
		}
		rows = append(rows, [2]string{"place", at.Who(p.Agent) + " in " + at.Sandbox})
	}
	if len(p.Models) > 0 {
		rows = append(rows, [2]string{"model", cmp.Or(s.Model, p.ModelOf(1)) + ofModels(p)})
	}
	if p.Tasks != nil {
		rows = append(rows, [2]string{"tasks", fmt.Sprintf("%d closed, %d put back, of %s", len(s.Closed), len(s.Left), term.Sanitize(p.Tasks.Project))})
	}
	if s.Task != nil {
		rows = append(rows, [2]string{"task", s.Task.ID + " " + s.Task.Title})
	}
	for _, o := range s.HeldUp {
		rows = append(rows, [2]string{"open", o.String() + " " + term.Opening(o.Title)})
	}
	if s.Question != "" {
		rows = append(rows, [2]string{"question", s.Question})
	}
	if d, waits := s.Waits(); waits {
		rows = append(rows, [2]string{"waits until", delayText(d)})
	}
	rows = append(rows, refusalRow(l.denied())...)
	v := s.LastVerdict()
	if v == nil && len(s.Beneath) > 0 {
		rows = append(rows, [2]string{"gate", "not asked  of what there is: " + beneathText(s)})
	}
	if v != nil {
		for _, g := range v.Gates {
			rows = append(rows, [2]string{"gate", gateText(g)})
		}
	}
	for _, id := range yetToSay(p, s) {
		rows = append(rows, [2]string{"gate", reviewerState(s, id) + "  " + id + ": " + p.Reviewer(id)})
	}
	if text := stuckText(p, s); text != "" {
		rows = append(rows, [2]string{"stuck", text + ": bothy loop hint tells the next iteration something"})
	}
	for _, h := range s.Hints {
		rows = append(rows, [2]string{"hint", term.Opening(h)})
	}
	return rows
}

// beneathText tells of files that were changed below those that were put back.
func beneathText(s *loop.State) string {
	return printable(strings.Join(s.Beneath, ", ")) + " changed since then, and stays as it is"
}

// ofModels tells which models take turns, if there are several.
func ofModels(p *loop.Plan) string {
	if len(p.Models) < 2 {
		return ""
	}
	turns := slices.Clone(p.Models)
	for i, agent := range p.Agents {
		turns[i] = agent + ":" + turns[i]
	}
	return ", of " + strings.Join(turns, ", ")
}

// reviewText tells what a reviewer said, the first of its reasons if it does not agree.
func reviewText(g loop.Gate) string {
	took := roundly(time.Duration(g.Seconds * float64(time.Second)))
	if g.Green {
		return "gate " + g.Name + " agrees after " + took
	}
	return strings.TrimSuffix("gate "+g.Name+" is red after "+took+": "+term.Opening(g.Why)+": "+term.Opening(g.Output), ": ")
}

// delayText tells what a run waits for, in a row.
func delayText(d run.Delay) string {
	return d.Until.Local().Format(time.DateTime) + ", " + delayReason(d)
}

func delayReason(d run.Delay) string {
	if d.For == run.Overloaded {
		return "the provider of a model is overloaded"
	}
	return "an allowance is used up"
}

// deniedText tells that somebody could not ask a model, and when it goes on. Known is
// whether somebody said until when.
func deniedText(whose string, overloaded, known bool, until time.Time) string {
	text := whose + " allowance is used up"
	switch {
	case overloaded:
		text = "the provider of " + whose + " model is overloaded"
	case !known:
		text += ", it does not say until when"
	}
	return text + ": waiting until " + until.Local().Format(time.DateTime)
}

// unheardText tells of a reviewer that is to be asked again, after which its work stands so.
func unheardText(ev run.Event, s *loop.State) string {
	var u loop.Unheard
	if json.Unmarshal(ev.Data, &u) != nil {
		return ""
	}
	return "gate " + u.Gate + ": " + deniedText("the reviewer's", u.Overloaded, !u.Until.IsZero(), s.Until)
}

func roundly(d time.Duration) string { return d.Round(100 * time.Millisecond).String() }

// soFarText tells what a loop has used; what nobody knows is no 0.
func soFarText(s *loop.State) string {
	if !s.Metered.Known() && s.Tokens == 0 && s.USD == 0 {
		return "an unknown number of tokens"
	}
	return usedText(s.Tokens, s.USD)
}

func usedText(tokens int64, usd float64) string {
	return fmt.Sprintf("%d tokens, %.4f USD", tokens, usd)
}

func (a *app) loopLogCommand() *cobra.Command {
	f := printedFlags{}
	c := &cobra.Command{
		Use: "log [RUN]", Short: "Show what has happened in a loop", Args: atMost(1, "a run"), ValidArgsFunction: a.oneRun(run.Loops),
		Long:    "Shows what has happened in a loop, in its order. With --json it is every event, a line\neach. With --iteration it is what the agent printed then, as bothy logs --agent shows it;\nwith --raw the very bytes.",
		Example: "  bothy loop log\n  bothy loop log --iteration 3\n  bothy loop log --iteration 3 --raw > said",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			l, err := a.loopCalled(strings.Join(args, ""))
			if err != nil {
				return err
			}
			if f.iteration > 0 {
				return a.loopPrinted(cmd.Context(), l, f)
			}
			s, err := loop.Fold(nil)
			for _, ev := range l.events {
				if err == nil {
					err = s.Add(ev)
				}
				if err == nil {
					err = a.printRunEvent(ev, pastLine(&l.plan, ev, s))
				}
			}
			return err
		},
	}
	c.Flags().IntVar(&f.iteration, "iteration", 0, "show what the agent printed in this iteration, the last time that it was tried")
	c.Flags().BoolVar(&f.raw, "raw", false, "with --iteration: as it was printed")
	return a.jsonFlag(c)
}

// pastLine tells an event of a loop that nobody looks on at: also that it was gone on with.
func pastLine(p *loop.Plan, ev run.Event, s *loop.State) string {
	if ev.Type == loop.Began && s.Iteration > 0 {
		return "gone on with, by another process"
	}
	return lineOf(p, ev, s)
}

// promptText is what was asked for.
func promptText(p *loop.Plan) string {
	if p.Prompt == taskPrompt {
		return "-, but for that of each task"
	}
	return p.Prompt
}

// lineOf tells an event, after which a loop stands so.
func lineOf(p *loop.Plan, ev run.Event, s *loop.State) string {
	if n, w := s.Of(ev); w != nil {
		if line := workerLine(p, ev, s, w); line != "" {
			return fmt.Sprintf("worker %d: %s", n, line)
		}
		return ""
	}
	at := fmt.Sprintf("iteration %d/%d: ", s.Iteration, p.Limits.MaxIterations)
	switch ev.Type {
	case loop.Baseline:
		return "before the first iteration: " + gatesText(p, s.Baseline)
	case loop.Iteration:
		who := cmp.Or(s.Agent, p.Agent)
		if s.Model != "" {
			who += " (" + s.Model + ")"
		}
		if n := s.Told(); n > 0 {
			return at + fmt.Sprintf("%s works, with %s", who, counted(n, "hint"))
		}
		return at + who + " works"
	case loop.Worked:
		return at + workText(s)
	case loop.Cut:
		return at + cutText(ev)
	case loop.Kept:
		return at + fmt.Sprintf("checkpoint %d, %s changed", s.Keep.Checkpoint, counted(s.Keep.Changes, "path"))
	case loop.Judged:
		return at + gatesText(p, s.Verdict) + doubtText(p, s) + fmt.Sprintf("; %s and %s so far", soFarText(s), roundly(time.Duration(s.Elapsed)))
	case loop.Reviewing:
		return at + "gate " + s.Reviewing + " is asked: " + p.Reviewer(s.Reviewing)
	case loop.ReviewDelayed:
		return at + unheardText(ev, s)
	case loop.ReviewCut:
		var u loop.Unheard
		if json.Unmarshal(ev.Data, &u) != nil {
			return ""
		}
		return at + "the review is cut short; it used " + usedText(u.Tokens, u.USD)
	case loop.Reviewed:
		var r loop.Review
		if json.Unmarshal(ev.Data, &r) != nil {
			return ""
		}
		return at + reviewText(r.Gate) + fmt.Sprintf("; %s and %s so far", soFarText(s), roundly(time.Duration(s.Elapsed)))
	case loop.Guarded:
		return guardText(ev)
	case loop.Took:
		return "task " + s.Task.ID + ": " + term.Opening(s.Task.Title)
	case loop.Closed:
		return "task " + s.Closed[len(s.Closed)-1].Task + " is closed"
	case loop.PutBack:
		last := s.Left[len(s.Left)-1]
		line := "task " + last.Task + " is put back: " + term.Opening(last.Why)
		if last.Checkpoint > 0 {
			line += fmt.Sprintf("; the files are put back to checkpoint %d", last.Checkpoint)
		}
		return line
	case loop.Lost:
		last := s.Left[len(s.Left)-1]
		return "task " + last.Task + " is another's: " + term.Opening(last.Why)
	case loop.Hinted:
		return "a hint from " + ev.Actor
	case run.Raised:
		return raisedText(ev)
	case loop.Cleared:
		return "hints that nobody was told are taken back, by " + ev.Actor
	case loop.Replaced:
		if s.Again() {
			return replacedText(ev) + fmt.Sprintf("; iteration %d is begun again", s.Iteration)
		}
		return replacedText(ev)
	case loop.Rewound:
		return "back " + s.Detail + ", by " + ev.Actor
	case loop.Ended:
		return strings.TrimSuffix(fmt.Sprintf("%s (%s): %s", s.Status, s.Reason, s.Detail), ": ")
	}
	return ""
}

// workerLine tells an event of one of several workers, after which all stand so, and it.
func workerLine(p *loop.Plan, ev run.Event, s, w *loop.State) string {
	at := fmt.Sprintf("iteration %d/%d: ", w.Iteration, p.Limits.MaxIterations)
	switch ev.Type {
	case loop.Iteration:
		who := cmp.Or(w.Agent, p.Agent)
		if w.Model != "" {
			who += " (" + w.Model + ")"
		}
		return at + who + " works at " + w.Task.ID
	case loop.Cut:
		return at + cutText(ev)
	case loop.Worked:
		return at + workText(w)
	case loop.Kept:
		return at + fmt.Sprintf("checkpoint %d, %s changed", w.Keep.Checkpoint, counted(w.Keep.Changes, "path"))
	case loop.Judged:
		return at + gatesText(p, w.Verdict) + doubtText(p, w) + fmt.Sprintf("; all: %s and %s so far", soFarText(s), roundly(time.Duration(s.Elapsed)))
	case loop.Took:
		return "task " + w.Task.ID + ": " + term.Opening(w.Task.Title)
	case loop.Joined:
		if n := len(w.Join.Conflicts); n > 0 {
			return fmt.Sprintf("task %s: in conflict with what others have done: %s", w.Task.ID, counted(n, "path"))
		}
		if n := len(w.Join.Texts); n > 0 {
			return fmt.Sprintf("task %s: lines of %s are brought together with what others have done", w.Task.ID, counted(n, "file"))
		}
		return ""
	case loop.Reviewing:
		return at + "gate " + w.Reviewing + " is asked: " + p.Reviewer(w.Reviewing)
	case loop.ReviewDelayed:
		return at + unheardText(ev, w)
	case loop.Reviewed:
		var r loop.Review
		if json.Unmarshal(ev.Data, &r) != nil {
			return ""
		}
		return at + reviewText(r.Gate)
	case loop.Rejudged:
		return "task " + w.Task.ID + ", together with what others have done: " + gatesText(p, w.Verdict)
	case loop.Closed:
		return "task " + s.Closed[len(s.Closed)-1].Task + " is closed"
	case loop.PutBack, loop.Lost:
		return leftText(ev)
	case loop.Replaced:
		return replacedText(ev)
	}
	return ""
}

func replacedText(ev run.Event) string {
	var at loop.Place
	if json.Unmarshal(ev.Data, &at) != nil {
		return ""
	}
	return "the sandbox " + at.Sandbox + " was removed, and is made anew"
}

// guardText tells what was put back of what is protected.
func guardText(ev run.Event) string {
	var g loop.Guard
	if json.Unmarshal(ev.Data, &g) != nil {
		return ""
	}
	var parts []string
	if list := slices.Clone(g.Paths); len(list) > 0 {
		for i := range list {
			list[i] = review.Quote(list[i])
		}
		if g.More > 0 {
			list = append(list, fmt.Sprintf("%d more", g.More))
		}
		parts = append(parts, "put back: "+strings.Join(list, ", "))
	}
	for _, left := range g.Left {
		parts = append(parts, "not put back: "+term.Opening(left))
	}
	return strings.Join(parts, "; ")
}

func cutText(ev run.Event) string {
	var w loop.Work
	if json.Unmarshal(ev.Data, &w) != nil {
		return "cut short"
	}
	if w.Fell != "" {
		return w.Fell + "; it is done again, and used " + usedText(w.Tokens, w.USD)
	}
	return "cut short; it used " + usedText(w.Tokens, w.USD)
}

// leftText tells of a task that a worker has no more.
func leftText(ev run.Event) string {
	var l loop.Left
	switch {
	case json.Unmarshal(ev.Data, &l) != nil:
		return ""
	case ev.Type == loop.Lost:
		return "task " + l.Task + " is another's: " + term.Opening(l.Why)
	case l.Again:
		return "task " + l.Task + " is tried again: " + l.Why
	}
	return "task " + l.Task + " is put back: " + term.Opening(l.Why)
}

// workText tells what became of the agent, after which its work stands so.
func workText(s *loop.State) string {
	text := verdictText(s)
	if stayed := s.Work.Stayed; stayed != "" {
		text += " (" + term.Line(stayed) + ")"
	}
	return text
}

// verdictText is that by its own word.
func verdictText(s *loop.State) string {
	w := s.Work
	took := roundly(time.Duration(w.Seconds * float64(time.Second)))
	switch {
	case w.Verdict == spec.VerdictLimit:
		return deniedText("its", w.Overloaded, !w.Until.IsZero(), s.Until)
	case w.Verdict != spec.VerdictOK:
		return "the agent failed after " + took + ": " + term.Opening(w.Error)
	case w.Abort:
		return "the agent gives up after " + took
	case w.Asks:
		return "the agent asks, after " + took + ": " + term.Opening(w.Question())
	case w.Done:
		return "the agent says that it is done, after " + took
	}
	return "the agent ended after " + took + ", and " + unsaidText(w)
}

// unsaidText tells of an agent that has promised nothing: who says nothing of being done has not
// said that it is not.
func unsaidText(w *loop.Work) string {
	if strings.TrimSpace(w.Message) == "" {
		return "said nothing"
	}
	return "said nothing of being done"
}

// doubtText tells why an agent is not believed, behind what the gates say; empty if it is.
func doubtText(p *loop.Plan, s *loop.State) string {
	if !loop.Unproven(p, s) {
		return ""
	}
	return " as before, and no file was changed: that it is done is not believed"
}

// counted says how many there are of something.
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
