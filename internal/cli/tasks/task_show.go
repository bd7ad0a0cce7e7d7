package tasks

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/internal/term"
)

// neededBy is a dependent task in JSON.
type neededBy struct {
	ID   string    `json:"id"`
	Kind task.Kind `json:"type"`
}

func (t *taskCall) showCommand() *cobra.Command {
	return t.addProjectFlags(&cobra.Command{
		Use: "show ID", Aliases: []string{"inspect"}, Short: "Show a task, the tasks that it waits for, and those that wait for it",
		Args: cmdline.Exactly(1, "the ID of a task"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return t.taskIDs(cmd, args, word)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			g, x, err := t.findTask(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return t.showTask(g, x)
		},
	})
}

// showTask prints all details of a task.
func (t *taskCall) showTask(g *task.Graph, x *task.Task) error {
	now := time.Now()
	dependents := g.Dependents(x.ID)
	if t.JSON {
		also := struct {
			taskView
			NeededBy []neededBy `json:"needed_by"`
		}{viewOf(g, x, now), []neededBy{}}
		for _, d := range dependents {
			also.NeededBy = append(also.NeededBy, neededBy{d.TaskID, d.Kind})
		}
		doc, err := x.EncodeWith(also)
		if err != nil {
			return err
		}
		return t.PrintJSON(document(doc))
	}
	s := g.State(x, now)
	fmt.Fprintf(t.Out, "%s  %s\n\n", x.ID, term.Line(x.Title))
	w := t.Table()
	row := func(name, text string) {
		if text != "" {
			fmt.Fprintf(w, "  %s\t%s\n", name, text)
		}
	}
	row("state", stateCell(x, s))
	row("type", fmt.Sprintf("%s, priority %d", term.Sanitize(x.Type), x.Priority))
	row("assignee", claimRow(x, s))
	row("labels", term.Sanitize(strings.Join(x.Labels, ", ")))
	row("created", dateRow(&x.CreatedAt)+actorText(x.CreatedBy))
	row("started", dateRow(x.StartedAt))
	row("due", dateRow(x.DueAt))
	row("deferred", dateRow(x.DeferUntil))
	row("closed", strings.TrimSpace(dateRow(x.ClosedAt)+" "+term.Line(x.CloseReason)))
	if x.ExternalRef != nil {
		row("external", term.Sanitize(*x.ExternalRef))
	}
	for _, b := range s.Blockers {
		row("waits for", blockerRow(g, b))
	}
	for _, d := range x.Dependencies {
		name, also := relation(d.Kind, "needs", "")
		row(name, taskRow(g, d.DependsOnID, now)+also)
	}
	for _, d := range dependents {
		if d.Kind != task.ParentChild {
			name, also := relation(d.Kind, "needed by", " of")
			row(name, taskRow(g, d.TaskID, now)+also)
		}
	}
	for _, c := range g.Children(x.ID) {
		row("part", taskRow(g, c.ID, now))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, p := range []struct{ name, text string }{
		{"Description", x.Description}, {"Design", x.Design}, {"Acceptance criteria", x.AcceptanceCriteria}, {"Notes", x.Notes},
	} {
		if p.text != "" {
			fmt.Fprintf(t.Out, "\n%s\n  %s\n", p.name, strings.ReplaceAll(strings.TrimRight(console.Printable(p.text), "\n"), "\n", "\n  "))
		}
	}
	return nil
}

// relation names a dependency as seen from one of its ends. Kinds that block a task are named from
// the other end, so they have words of their own here.
func relation(kind task.Kind, word, of string) (name, also string) {
	switch kind {
	case task.Blocks:
		return word, ""
	case task.ConditionalBlocks, task.WaitsFor:
		return word, "  (" + string(kind) + ")"
	case task.ParentChild:
		return "part of", ""
	}
	return term.Sanitize(string(kind)) + of, ""
}

func actorText(who string) string {
	if who == "" {
		return ""
	}
	return " by " + term.Sanitize(who)
}

func dateRow(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.Local().Format(time.DateTime)
}

// claimRow names the claimant of a task, and the end of the claim.
func claimRow(x *task.Task, s task.State) string {
	text := term.Sanitize(x.Assignee)
	switch {
	case s.Reason == task.ReasonClaimed && !s.Until.IsZero():
		text += ", until " + dateRow(&s.Until)
	case x.LeaseExpiresAt != nil && s.Reason != task.ReasonClosed:
		text += ", whose claim ended " + dateRow(x.LeaseExpiresAt)
	}
	return text
}

// taskRow formats a task on one line.
func taskRow(g *task.Graph, id string, now time.Time) string {
	x, err := g.Find(id)
	if err != nil || x.ID != id {
		return term.Sanitize(id) + "  (not here)"
	}
	return stateCell(x, g.State(x, now)) + "  " + x.ID + "  " + term.Line(x.Title)
}

// blockerRow says why a task waits for another.
func blockerRow(g *task.Graph, b task.Blocker) string {
	why := map[task.Kind]string{
		task.ConditionalBlocks: ", and begins only if that fails",
		task.WaitsFor:          ": its parts",
	}[b.Kind]
	if b.Never {
		why = ", which did not fail: it will not begin"
	}
	text := b.ID + why
	if b.Via != "" {
		text += " (as a part of " + b.Via + ")"
	}
	return text
}
