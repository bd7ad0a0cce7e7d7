package tasks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/spec"
)

// taskFilter are the flags that select tasks.
type taskFilter struct {
	priorities, types, labels []string
	assignee, parent, order   string
	unassigned                bool
	limit                     int
	quiet                     bool
}

func (f *taskFilter) addFlags(t *taskCall, c *cobra.Command) {
	fs := c.Flags()
	fs.StringArrayVarP(&f.priorities, "priority", "p", nil, "only of this priority; repeatable")
	fs.StringArrayVarP(&f.types, "type", "t", nil, "only of this type; repeatable")
	fs.StringArrayVarP(&f.labels, "label", "l", nil, "only with this label; repeatable: with all of them")
	fs.StringVar(&f.parent, "parent", "", "only parts of this task, and their parts")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "print IDs only")
	fs.StringVar(&f.order, "sort", string(task.ByPriority), "priority: the most urgent, then the oldest; oldest; hybrid: those of two days by priority, then the oldest")
	cmdline.CompleteFlag(c, "type", cmdline.OneOf(task.Types()...))
	cmdline.CompleteFlag(c, "priority", cmdline.OneOf("0", "1", "2", "3", "4"))
	cmdline.CompleteFlag(c, "parent", t.taskIDs)
	cmdline.CompleteFlag(c, "sort", cmdline.OneOf(task.Orders()...))
}

// addList also adds the flags for lists.
func (f *taskFilter) addList(t *taskCall, c *cobra.Command) {
	f.addFlags(t, c)
	fs := c.Flags()
	fs.StringVarP(&f.assignee, "assignee", "a", "", "only theirs")
	fs.BoolVar(&f.unassigned, "unassigned", false, "only tasks without an assignee")
	fs.IntVarP(&f.limit, "limit", "n", 0, "at most so many")
}

// filter parses the flags.
func (f *taskFilter) filter(g *task.Graph) (task.Filter, task.Order, error) {
	out := task.Filter{Types: f.types, Labels: f.labels, Assignee: f.assignee, Unassigned: f.unassigned}
	for _, p := range f.priorities {
		n, err := parsePriority(p)
		if err != nil {
			return out, "", err
		}
		out.Priorities = append(out.Priorities, n)
	}
	if !slices.Contains(task.Orders(), f.order) {
		return out, "", spec.Errorf(spec.ErrUsage, "no order %q", f.order).WithHint("there are priority, oldest and hybrid")
	}
	if f.limit < 0 {
		return out, "", spec.Errorf(spec.ErrUsage, "--limit %d is negative", f.limit)
	}
	if f.parent != "" {
		p, err := g.Find(f.parent)
		if err != nil {
			return out, "", err
		}
		out.Parent = p.ID
	}
	return out, task.Order(f.order), nil
}

// printList prints a list, cut to the limit.
func (f *taskFilter) printList(t *taskCall, g *task.Graph, list []*task.Task) error {
	total := len(list)
	if f.limit > 0 {
		list = list[:min(total, f.limit)]
	}
	switch {
	case t.JSON:
		return PrintTasks(t.Console, g, list, map[string]any{"total": total})
	case f.quiet:
		return t.printIDs(g, list, nil)
	}
	if err := TaskTable(t.Console, g, list); err != nil {
		return err
	}
	if len(list) < total {
		t.Note("%d of %d are shown", len(list), total)
	}
	return nil
}

// viewTasks returns the tasks, and the filter and order of the flags.
func (f *taskFilter) viewTasks(ctx context.Context, t *taskCall) (g *task.Graph, filter task.Filter, order task.Order, err error) {
	if g, err = t.viewTasks(ctx); err == nil {
		filter, order, err = f.filter(g)
	}
	return g, filter, order, err
}

func (t *taskCall) lsCommand() *cobra.Command {
	var f taskFilter
	var all bool
	var statuses []string
	c := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List tasks", Args: cmdline.Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			g, filter, order, err := f.viewTasks(cmd.Context(), t)
			if err != nil {
				return err
			}
			now := time.Now()
			var list []*task.Task
			for _, x := range g.All() {
				if filter.Matches(g, x) && hasStatus(g, x, statuses, all, now) {
					list = append(list, x)
				}
			}
			task.SortTasks(list, order, now)
			return f.printList(t, g, list)
		},
	}
	f.addList(t, c)
	c.Flags().StringArrayVarP(&statuses, "status", "s", nil, "only of this status, or in this state: ready, claimed, blocked, ...; repeatable")
	c.Flags().BoolVar(&all, "all", false, "closed ones too")
	cmdline.CompleteFlag(c, "status", cmdline.OneOf(append(task.Statuses(), "ready", "claimed")...))
	return t.addProjectFlags(c)
}

// hasStatus reports whether a task has one of the statuses, or a state of that name. Without
// statuses all tasks but closed ones match.
func hasStatus(g *task.Graph, x *task.Task, statuses []string, all bool, now time.Time) bool {
	if len(statuses) == 0 {
		return all || x.Status != task.Closed && x.Status != task.Tombstone
	}
	return slices.Contains(statuses, string(x.Status)) || slices.Contains(statuses, stateWord(x, g.State(x, now)))
}

func (t *taskCall) readyCommand() *cobra.Command {
	var f taskFilter
	c := &cobra.Command{
		Use: "ready", Short: "List the tasks that can begin now, in the order in which they should",
		Long: "Lists the tasks that can begin now: open ones that wait for nothing, and those whose claim\nhas run out.",
		Args: cmdline.Exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			g, filter, order, err := f.viewTasks(cmd.Context(), t)
			if err != nil {
				return err
			}
			list := g.Ready(&filter, order, time.Now())
			if len(list) == 0 && !t.JSON {
				t.Note("no task is ready%s", whyNone(g))
				return nil
			}
			return f.printList(t, g, list)
		},
	}
	f.addList(t, c)
	return t.addProjectFlags(c)
}

// whyNone counts the tasks that are open but not ready.
func whyNone(g *task.Graph) string {
	count := map[string]int{}
	now := time.Now()
	for _, x := range g.All() {
		count[stateWord(x, g.State(x, now))]++
	}
	var text strings.Builder
	for _, word := range []string{"claimed", "blocked", "deferred", "human"} {
		if n := count[word]; n > 0 {
			fmt.Fprintf(&text, ", %d %s", n, word)
		}
	}
	return text.String()
}
