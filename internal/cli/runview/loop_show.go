package runview

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/cli/tasks"
	"github.com/bothy-dev/bothy/internal/loop"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// listCells returns the row of a loop in a list.
func (l shownLoop) listCells() []string {
	s, p := l.State, &l.Plan
	return []string{
		l.Run.ID, string(l.Standing().Status), fmt.Sprintf("%d/%d", s.Iteration, p.Limits.MaxIterations), p.Agent, cmdline.Dash(s.Sandbox), term.Sanitize(p.Directory),
	}
}

// PrintTasks prints the tasks that a loop takes its work from: closed ones, current ones, those put
// back, and those to come. There may be none.
func (a *Viewer) PrintTasks(ctx context.Context, l *runstate.Loop) error {
	g, list := task.NewGraph(), []*task.Task{}
	if d := runstate.TaskQueueOf(l.Engine, &l.Plan, l.Run); d != nil {
		var err error
		if g, err = d.Store.View(ctx); err != nil {
			return err
		}
		list = shownLoop{l}.tasksOf(g)
	}
	used, err := loop.TaskCosts(l.Events)
	switch {
	case err != nil:
		return err
	case a.JSON:
		return tasks.PrintTasks(a.Console, g, list, shownLoop{l}.aboutTasks(used))
	case l.Plan.Tasks == nil:
		a.Note("the run %s takes no tasks; bothy task ls lists those of a project", l.Run.ID)
		return nil
	}
	fmt.Fprintln(a.Out)
	return cmp.Or(tasks.TaskTable(a.Console, g, list), a.printTaskCosts(used))
}

// tasksOf returns the tasks that concern a loop.
func (l shownLoop) tasksOf(g *task.Graph) (list []*task.Task) {
	known := map[string]bool{}
	for _, f := range l.State.Closed {
		known[f.Task] = true
	}
	for _, f := range l.State.Left {
		known[f.Task] = true
	}
	for _, id := range l.InHand() {
		known[id] = true
	}
	choice := task.Filter{Labels: l.Plan.Tasks.Labels}
	for _, x := range g.All() {
		if known[x.ID] || x.Status != task.Closed && choice.Matches(g, x) {
			list = append(list, x)
		}
	}
	return list
}

// aboutTasks describes in JSON what a loop did with tasks.
func (l shownLoop) aboutTasks(used []loop.TaskCost) map[string]any {
	s := l.State
	about := map[string]any{
		"closed_tasks": append([]loop.Finished{}, s.Closed...), "put_back": append([]loop.Left{}, s.Left...),
		"used": append([]loop.TaskCost{}, used...),
	}
	if s.Task != nil {
		about["task"] = s.Task.ID
	}
	if len(s.Workers) > 0 {
		about["tasks_in_hand"] = l.InHand()
	}
	return about
}

// printTaskCosts prints the usage of tasks, if any was taken.
func (a *Viewer) printTaskCosts(list []loop.TaskCost) error {
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

// statusRows describes the state of a loop for people.
func (l shownLoop) statusRows() [][2]string {
	s, p := l.State, &l.Plan
	status := statusText(l.Standing())
	if l.Pause {
		status += ", and is to pause after this iteration"
	}
	rows := [][2]string{
		{"run", l.Run.ID},
		{"status", status},
		{"iteration", fmt.Sprintf("%d/%d", s.Iteration, p.Limits.MaxIterations)},
		{"agent", strings.Join(append([]string{p.Agent}, p.Others()...), ", ")},
		{"sandbox", cmp.Or(s.Sandbox, p.Sandbox)},
		{"directory", term.Sanitize(p.Directory)},
		{"began", l.Since.Local().Format(time.DateTime)},
		{"took", Rounded(s.Took(s.Status, time.Now()))},
	}
	rows = append(rows, limitRow(p.Limits.Time, p.Limits.Tokens, p.Limits.USD, l.Raised)...)
	rows = append(rows, cmdline.MeteredRows(s.Tokens, s.USD, &s.Metered)...)
	rows = append(rows, leftRow(l.Run, l.LeftBehind())...)
	rows = append(rows, [2]string{"prompt", term.Opening(promptText(p))}, [2]string{"promise", promiseText(p)})
	for _, w := range runstate.WorkersOf(s) {
		rows = append(rows, [2]string{fmt.Sprintf("worker %d", w.Worker), strings.TrimPrefix(w.Sandbox+"  "+workerText(w), "  ")})
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
	rows = append(rows, refusalRow(runstate.Denied(l))...)
	v := s.LastVerdict()
	if v == nil && len(s.Beneath) > 0 {
		rows = append(rows, [2]string{"gate", "not asked  of what there is: " + BeneathText(s)})
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

// BeneathText names files that changed beneath the restored ones.
func BeneathText(s *loop.State) string {
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
	took := Rounded(time.Duration(g.Seconds * float64(time.Second)))
	if g.Green {
		return "gate " + g.Name + " agrees after " + took
	}
	return strings.TrimSuffix("gate "+g.Name+" is red after "+took+": "+term.Opening(g.Why)+": "+term.Opening(g.Output), ": ")
}

// narrator describes the events of a loop.
func (l shownLoop) narrator() (func(run.Event) (string, error), error) {
	s, err := loop.Fold(nil)
	return func(ev run.Event) (string, error) {
		if err := s.Add(ev); err != nil {
			return "", err
		}
		return pastLine(&l.Plan, ev, s), nil
	}, err
}
