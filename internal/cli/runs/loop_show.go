package runs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/cli/tasks"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// cells returns the row of a loop in a list.
func (l *loopRun) cells() []string {
	v := l.viewed()
	return []string{
		v.ID, string(v.runHead.Status), fmt.Sprintf("%d/%d", v.Iteration, v.Plan.Limits.MaxIterations), v.Plan.Agent, cmdline.Dash(v.Sandbox), term.Sanitize(v.Plan.Directory),
	}
}

func loopStatusCommand(a *app) *cobra.Command {
	var tasks bool
	c := runStatusCommand(a, loops)
	c.Flags().BoolVar(&tasks, "tasks", false, "also the tasks that it takes its work from; with --json those alone")
	show := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if !tasks {
			return show(cmd, args)
		}
		l, err := openRun(a, loops, strings.Join(args, ""), readLoop)
		if err == nil && !a.JSON {
			err = a.printStatus(l)
		}
		if err != nil {
			return err
		}
		return a.loopTasks(cmd.Context(), l)
	}
	return c
}

// loopTasks prints the tasks that a loop takes its work from: closed ones, current ones, those put
// back, and those to come. There may be none.
func (a *app) loopTasks(ctx context.Context, l *loopRun) error {
	g, list := task.NewGraph(), []*task.Task{}
	if d := taskQueueOf(l.engine, &l.plan, l.run); d != nil {
		var err error
		if g, err = d.Store.View(ctx); err != nil {
			return err
		}
		list = l.tasksOf(g)
	}
	used, err := loop.TaskCosts(l.events)
	switch {
	case err != nil:
		return err
	case a.JSON:
		return tasks.PrintTasks(a.Console, g, list, l.aboutTasks(used))
	case l.plan.Tasks == nil:
		a.Note("the run %s takes no tasks; bothy task ls lists those of a project", l.run.ID)
		return nil
	}
	fmt.Fprintln(a.Out)
	return cmp.Or(tasks.TaskTable(a.Console, g, list), a.printTaskCosts(used))
}

// tasksOf returns the tasks that concern a loop.
func (l *loopRun) tasksOf(g *task.Graph) (list []*task.Task) {
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

// inHand returns the tasks that agents work on.
func (l *loopRun) inHand() []string {
	hands := []string{}
	for _, w := range append([]*loop.State{l.state}, l.state.Workers...) {
		if w.Task != nil {
			hands = append(hands, w.Task.ID)
		}
	}
	return hands
}

// aboutTasks describes in JSON what a loop did with tasks.
func (l *loopRun) aboutTasks(used []loop.TaskCost) map[string]any {
	s := l.state
	about := map[string]any{
		"closed_tasks": append([]loop.Finished{}, s.Closed...), "put_back": append([]loop.Left{}, s.Left...),
		"used": append([]loop.TaskCost{}, used...),
	}
	if s.Task != nil {
		about["task"] = s.Task.ID
	}
	if len(s.Workers) > 0 {
		about["tasks_in_hand"] = l.inHand()
	}
	return about
}

// printTaskCosts prints the usage of tasks, if any was taken.
func (a *app) printTaskCosts(list []loop.TaskCost) error {
	if len(list) == 0 {
		return nil
	}
	w := a.Table()
	fmt.Fprintln(w, "\nID\tITERATIONS\t"+strings.Join(cmdline.MeterTitles[:], "\t"))
	var all spec.Metered
	each := make([]spec.Metered, 0, len(list))
	for _, t := range list {
		fmt.Fprintf(w, "%s\t%d\t%s\n", t.Task, t.Iterations, cmdline.CellsOf(&t.Metered))
		all.Add(t.Metered)
		each = append(each, t.Metered)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	a.ExplainMetered(&all, each...)
	return nil
}

// rows describes the state of a loop for people.
func (l *loopRun) rows() [][2]string {
	s, p := l.state, &l.plan
	status := statusText(l.standing())
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
		{"took", roundly(s.Took(s.Status, time.Now()))},
	}
	rows = append(rows, limitRow(p.Limits.Time, p.Limits.Tokens, p.Limits.USD, l.raised)...)
	rows = append(rows, cmdline.MeteredRows(s.Tokens, s.USD, &s.Metered)...)
	rows = append(rows, leftRow(l.run, l.left())...)
	rows = append(rows, [2]string{"prompt", term.Opening(promptText(p))}, [2]string{"promise", promiseText(p)})
	for _, w := range workersOf(s) {
		rows = append(rows, [2]string{fmt.Sprintf("worker %d", w.Worker), strings.TrimPrefix(w.Sandbox+"  "+w.text(), "  ")})
	}
	for _, at := range s.Places {
		if at.Worker > 0 { // its worker's row shows it
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

// beneathText names files that changed beneath the restored ones.
func beneathText(s *loop.State) string {
	return console.Printable(strings.Join(s.Beneath, ", ")) + " changed since then, and stays as it is"
}

// ofModels lists the models that take turns, if there are several.
func ofModels(p *loopplan.Plan) string {
	if len(p.Models) < 2 {
		return ""
	}
	turns := slices.Clone(p.Models)
	for i, agent := range p.Agents {
		turns[i] = agent + ":" + turns[i]
	}
	return ", of " + strings.Join(turns, ", ")
}

// reviewText describes a reviewer's verdict, with its first reason if it is red.
func reviewText(g loop.Gate) string {
	took := roundly(time.Duration(g.Seconds * float64(time.Second)))
	if g.Green {
		return "gate " + g.Name + " agrees after " + took
	}
	return strings.TrimSuffix("gate "+g.Name+" is red after "+took+": "+term.Opening(g.Why)+": "+term.Opening(g.Output), ": ")
}

func loopLogCommand(a *app) *cobra.Command {
	f := printedFlags{}
	c := runLogCommand(a, loops)
	c.Long = "Shows the events of a loop, in their order. With --json it is every event, a line\neach. With --iteration it is what the agent printed then, as bothy logs --agent shows it;\nwith --raw the very bytes."
	c.Example = "  bothy loop log\n  bothy loop log --iteration 3\n  bothy loop log --iteration 3 --raw > said"
	c.Flags().IntVar(&f.iteration, "iteration", 0, "show what the agent printed in this iteration, the last time that it was tried")
	c.Flags().BoolVar(&f.raw, "raw", false, "with --iteration: as it was printed")
	show := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(cmd); err != nil {
			return err
		}
		if f.iteration == 0 {
			return show(cmd, args)
		}
		l, err := openRun(a, loops, strings.Join(args, ""), readLoop)
		if err != nil {
			return err
		}
		return a.loopPrinted(cmd.Context(), l, f)
	}
	return c
}

// narrator describes the events of a loop.
func (l *loopRun) narrator() (func(run.Event) (string, error), error) {
	s, err := loop.Fold(nil)
	return func(ev run.Event) (string, error) {
		if err := s.Add(ev); err != nil {
			return "", err
		}
		return pastLine(&l.plan, ev, s), nil
	}, err
}
