package tasks

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/spec"
)

// updateFlags are the flags of update.
type updateFlags struct {
	taskFields
	status, parent, more string
	labels, remove       []string
	force                bool
}

func (t *taskCall) updateCommand() *cobra.Command {
	var f updateFlags
	c := &cobra.Command{
		Use: "update ID", Aliases: []string{"edit"}, Short: "Change fields of a task",
		Long:    "Changes the fields that are given; an empty text takes one away. A task that another\nactor has claimed keeps its status and assignee unless --force is given.",
		Example: "  bothy task update bd-a1b2 --priority 0 --add-label urgent\n  bothy task update bd-a1b2 --append-notes 'The cause is in tax.go'",
		Args:    cmdline.Exactly(1, "the ID of a task"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.readDescription(cmd, t.app); err != nil {
				return err
			}
			var x *task.Task
			g, err := t.change(cmd.Context(), func(g *task.Graph, who string, now time.Time) (err error) {
				x, err = f.update(cmd, g, args[0], who, now)
				return err
			})
			if err != nil {
				return err
			}
			if t.JSON {
				return t.printTask(g, x)
			}
			return t.printIDs(g, []*task.Task{x}, nil)
		},
	}
	f.addFlags(c)
	fs := c.Flags()
	fs.StringVar(&f.title, "title", "", "its title")
	fs.StringVarP(&f.status, "status", "s", "", strings.Join(task.Statuses(), ", ")+"; close and reopen it by those commands")
	fs.StringVar(&f.parent, "parent", "", "make it a part of this task and of no other; empty: of none")
	fs.StringVar(&f.more, "append-notes", "", "put a line below the notes")
	fs.StringArrayVar(&f.labels, "add-label", nil, "give it a label; repeatable")
	fs.StringArrayVar(&f.remove, "remove-label", nil, "take a label from it; repeatable")
	fs.BoolVar(&f.force, "force", false, "also if another worker has claimed it")
	cmdline.MayBeEmpty(c, "parent", "assignee", "due", "defer", "external-ref", "spec-id") // an empty value clears the field
	cmdline.CompleteFlag(c, "status", cmdline.OneOf(task.Statuses()...))
	cmdline.CompleteFlag(c, "parent", t.taskIDs)
	return t.addActorFlag(c)
}

func (f *updateFlags) update(cmd *cobra.Command, g *task.Graph, id, who string, now time.Time) (*task.Task, error) {
	given := cmd.Flags().Changed
	if given("status") && !slices.Contains(task.Statuses(), f.status) {
		return nil, spec.Errorf(spec.ErrUsage, "no status %q", f.status).WithHint("there are %s", strings.Join(task.Statuses(), ", "))
	}
	x, err := g.Update(id, who, f.force, now, func(x *task.Task) error {
		if given("status") {
			x.Status = task.Status(f.status)
		}
		if given("append-notes") {
			x.AddNote(f.more)
		}
		x.Labels = slices.DeleteFunc(x.Labels, func(l string) bool { return slices.Contains(f.remove, l) })
		x.Labels = withLabels(x.Labels, f.labels)
		return f.setFields(cmd, x, now)
	})
	if err == nil && given("parent") {
		x, err = g.Move(x.ID, f.parent, who, now)
	}
	return x, err
}

func (t *taskCall) closeCommand() *cobra.Command {
	var end task.End
	c := &cobra.Command{
		Use: "close ID...", Aliases: []string{"done"}, Short: "Close tasks, and tell what can begin because of that",
		Long: "Closes tasks: all of them, or none. One that is closed already stays as it is. A reason\nwith a word as failed, rejected, wontfix, cancelled, abandoned, error, timeout or aborted\nlets those begin that depend on the task by conditional-blocks.",
		Args: cmdline.AtLeast(1, "the ID of a task"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var closed, next []*task.Task
			g, err := t.change(cmd.Context(), func(g *task.Graph, who string, now time.Time) (err error) {
				closed, next, err = g.CloseAll(cmd.Context(), args, who, end, now)
				return err
			})
			if err != nil {
				return err
			}
			begin := []string{}
			for _, x := range next {
				begin = append(begin, x.ID)
			}
			if len(begin) > 0 && !t.JSON {
				t.Note("can begin now: %s", strings.Join(begin, " "))
			}
			return t.printIDs(g, closed, map[string]any{"ready": begin})
		},
	}
	c.Flags().StringVarP(&end.Reason, "reason", "r", "", "how it ended")
	c.Flags().StringVar(&end.Session, "session", "", "the session of an agent in which it ended")
	c.Flags().BoolVar(&end.Force, "force", false, "also if another worker has claimed it, it is blocked, or parts of it are open")
	return t.addActorFlag(c)
}

func (t *taskCall) reopenCommand() *cobra.Command {
	return t.addActorFlag(&cobra.Command{
		Use: "reopen ID...", Short: "Make closed tasks open again, without an assignee",
		Args: cmdline.AtLeast(1, "the ID of a task"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var list []*task.Task
			g, err := t.change(cmd.Context(), func(g *task.Graph, _ string, now time.Time) error {
				for _, id := range args {
					x, err := g.Reopen(id, now)
					if err != nil {
						return err
					}
					list = append(list, x)
				}
				return nil
			})
			if err != nil {
				return err
			}
			return t.printIDs(g, list, nil)
		},
	})
}
