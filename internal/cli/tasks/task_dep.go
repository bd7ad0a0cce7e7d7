package tasks

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

func (t *taskCall) depCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "dep", Aliases: []string{"deps"}, Short: "What tasks depend on",
		Long: `What tasks depend on. Four kinds keep a task from being ready:

  blocks              it waits until the other is closed
  parent-child        it is a part of the other, and waits as long as that is blocked
  conditional-blocks  it begins only if the other is closed as failed
  waits-for           it waits for the parts of the other: all, or the first

The others inform. A dependency by which tasks would wait for each other is refused.`,
	}
	for _, build := range []func(*taskCall) *cobra.Command{(*taskCall).depAddCommand, (*taskCall).depRmCommand, (*taskCall).depTreeCommand, (*taskCall).depCyclesCommand} {
		c.AddCommand(build(&taskCall{app: t.app}))
	}
	return c
}

// printChanged prints a task with changed dependencies.
func (t *taskCall) printChanged(g *task.Graph, x *task.Task) error {
	if t.JSON {
		return t.printTask(g, x)
	}
	return t.printIDs(g, []*task.Task{x}, nil)
}

func checkKind(kind string) error {
	if !slices.Contains(task.Kinds(), kind) {
		return spec.Errorf(spec.ErrUsage, "no kind of dependency %q", kind).WithHint("there are %s", strings.Join(task.Kinds(), ", "))
	}
	return nil
}

func (t *taskCall) depAddCommand() *cobra.Command {
	var kind, gate string
	c := &cobra.Command{
		Use: "add ID ON", Short: "Make the task ID depend on the task ON",
		Example: "  bothy task dep add bd-b bd-a                       # b waits for a\n  bothy task dep add bd-b bd-a --kind related",
		Args:    cmdline.Exactly(2, "two tasks: which depends, and on which"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkKind(kind); err != nil {
				return err
			}
			if gate != "all" && gate != "any" {
				return spec.Errorf(spec.ErrUsage, "no gate %q", gate).WithHint("there are all and any")
			}
			var x *task.Task
			g, err := t.change(cmd.Context(), func(g *task.Graph, who string, now time.Time) (err error) {
				x, err = g.Link(args[0], task.Link{Kind: task.Kind(kind), On: args[1], AnyChild: gate == "any"}, who, now)
				return err
			})
			if err != nil {
				return err
			}
			return t.printChanged(g, x)
		},
	}
	c.Flags().StringVarP(&kind, "kind", "t", string(task.Blocks), "blocks, parent-child, conditional-blocks, waits-for, related, discovered-from, ...")
	c.Flags().StringVar(&kind, "type", string(task.Blocks), "the same as --kind, in Beads' words")
	cmdline.CompleteFlag(c, "type", cmdline.OneOf(task.Kinds()...))
	c.Flags().StringVar(&gate, "gate", "all", "for waits-for: all parts, or any")
	cmdline.CompleteFlag(c, "kind", cmdline.OneOf(task.Kinds()...))
	cmdline.CompleteFlag(c, "gate", cmdline.OneOf("all", "any"))
	return t.addActorFlag(c)
}

func (t *taskCall) depRmCommand() *cobra.Command {
	var kind string
	c := &cobra.Command{
		Use: "rm ID ON", Aliases: []string{"remove"}, Short: "Make the task ID depend on the task ON no longer",
		Args: cmdline.Exactly(2, "two tasks: which depends, and on which"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var x *task.Task
			g, err := t.change(cmd.Context(), func(g *task.Graph, _ string, now time.Time) (err error) {
				x, err = g.Unlink(args[0], args[1], task.Kind(kind), now)
				return err
			})
			if err != nil {
				return err
			}
			return t.printChanged(g, x)
		},
	}
	c.Flags().StringVarP(&kind, "kind", "t", "", "only the dependency of this kind (default: of all)")
	cmdline.CompleteFlag(c, "kind", cmdline.OneOf(task.Kinds()...))
	return t.addActorFlag(c)
}

// depNode is a task in a tree of dependencies.
type depNode struct {
	ID           string     `json:"id"`
	Kind         task.Kind  `json:"type,omitempty"` // of the dependency between it and its parent in the tree
	Title        string     `json:"title,omitempty"`
	State        string     `json:"state,omitempty"`
	Above        bool       `json:"above,omitempty"` // its subtree was shown before
	Dependencies []*depNode `json:"dependencies"`

	line string
}

func (t *taskCall) depTreeCommand() *cobra.Command {
	var reverse bool
	c := &cobra.Command{
		Use: "tree ID", Short: "Show what a task depends on, and that depends on",
		Long: "Shows the tasks that a task depends on by kinds that block, and their own; with --reverse\nthe tasks that depend on it. A task that was shown before is not unfolded again.",
		Args: cmdline.Exactly(1, "the ID of a task"),
		RunE: func(cmd *cobra.Command, args []string) error {
			g, x, err := t.findTask(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			f := forest{picture{graph: g, now: time.Now()}, reverse, map[string]bool{}}
			top := f.printNode(x.ID, "")
			if t.JSON {
				return t.PrintJSON(top)
			}
			var b strings.Builder
			fmt.Fprintln(&b, top.line)
			branch(&b, "", top.Dependencies, func(n *depNode) (string, []*depNode) { return n.line, n.Dependencies })
			_, err = fmt.Fprint(t.Out, b.String())
			return err
		},
	}
	c.Flags().BoolVar(&reverse, "reverse", false, "what depends on it")
	return t.addProjectFlags(c)
}

// forest builds trees of dependencies.
type forest struct {
	picture
	reverse bool
	seen    map[string]bool
}

func (f *forest) printNode(id string, kind task.Kind) *depNode {
	n := &depNode{ID: id, Kind: kind, Dependencies: []*depNode{}}
	head := ""
	if kind != "" {
		head = string(kind) + ": "
	}
	x, err := f.graph.Find(id)
	if err != nil || x.ID != id {
		n.line = head + term.Sanitize(id) + "  (not here)"
		return n
	}
	n.Title, n.State = x.Title, stateWord(x, f.graph.State(x, f.now))
	n.line = head + f.taskLine(x)
	if n.Above = f.seen[id]; n.Above {
		n.line += "  (see above)"
		return n
	}
	f.seen[id] = true
	for _, d := range f.nextTasks(x) {
		n.Dependencies = append(n.Dependencies, f.printNode(d.ID, d.Kind))
	}
	return n
}

// nextTasks returns the tasks below one, with the kinds of their dependencies.
func (f *forest) nextTasks(x *task.Task) (list []neededBy) {
	if f.reverse {
		for _, d := range f.graph.Dependents(x.ID) {
			if d.Kind.Blocking() {
				list = append(list, neededBy{d.TaskID, d.Kind})
			}
		}
		return list
	}
	for _, d := range x.Dependencies {
		if d.Kind.Blocking() {
			list = append(list, neededBy{d.DependsOnID, d.Kind})
		}
	}
	return list
}

func (t *taskCall) depCyclesCommand() *cobra.Command {
	return t.addProjectFlags(&cobra.Command{
		Use: "cycles", Short: "Look for tasks that wait for each other", Args: cmdline.Exactly(0, "no arguments"),
		Long: "Looks for tasks that wait for each other. No command makes such; if there are any the exit\ncode is 1.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			g, err := t.viewTasks(cmd.Context())
			if err != nil {
				return err
			}
			cycles := append([][]string{}, g.Cycles()...)
			if t.JSON {
				err = t.PrintJSON(map[string]any{"cycles": cycles})
			} else {
				for _, c := range cycles {
					fmt.Fprintln(t.Out, task.ShowCycle(c))
				}
			}
			if err == nil && len(cycles) > 0 {
				err = &spec.Exited{Code: spec.ExitError}
			}
			return err
		},
	})
}
