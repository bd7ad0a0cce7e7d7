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

func (t *taskCall) graphCommand() *cobra.Command {
	var format string
	var all bool
	c := &cobra.Command{
		Use: "graph [ID]", Short: "Show tasks and what waits for what: as a tree, or for Graphviz or Mermaid",
		Long: "Shows all tasks, or one with its parts and all tasks that these wait for: as a tree of\nwholes and parts, or as a picture for Graphviz (dot) or Mermaid.",
		Args: cmdline.AtMost(1, "a task"),
		RunE: func(cmd *cobra.Command, args []string) error {
			draw, ok := map[string]func(picture) string{"tree": picture.printTree, "dot": picture.printDot, "mermaid": picture.mermaid}[format]
			if !ok {
				return spec.Errorf(spec.ErrUsage, "no format %q", format).WithHint("there are tree, dot and mermaid")
			}
			g, err := t.viewTasks(cmd.Context())
			if err != nil {
				return err
			}
			p := picture{graph: g, now: time.Now()}
			if p.list, err = drawnTasks(g, args, all); err != nil {
				return err
			}
			if t.JSON {
				return t.PrintJSON(p.jsonView())
			}
			_, err = fmt.Fprint(t.Out, draw(p))
			return err
		},
	}
	c.Flags().StringVar(&format, "format", "tree", "tree, dot or mermaid")
	c.Flags().BoolVar(&all, "all", false, "closed ones too")
	cmdline.CompleteFlag(c, "format", cmdline.OneOf("tree", "dot", "mermaid"))
	return t.addProjectFlags(c)
}

// drawnTasks returns the tasks of a picture: all, or one with its parts and all tasks that these wait for.
func drawnTasks(g *task.Graph, args []string, all bool) ([]*task.Task, error) {
	keep := func(x *task.Task) bool { return all || x.Status != task.Closed && x.Status != task.Tombstone }
	list := slices.DeleteFunc(g.All(), func(x *task.Task) bool { return !keep(x) })
	if len(args) == 0 {
		return list, nil
	}
	top, err := g.Find(args[0])
	if err != nil {
		return nil, err
	}
	in := map[string]bool{top.ID: true}
	for next := []*task.Task{top}; len(next) > 0; {
		x := next[0]
		next = append(next[1:], g.Children(x.ID)...)
		in[x.ID] = true
		for _, d := range x.Dependencies {
			other, err := g.Find(d.DependsOnID)
			if err == nil && d.Kind.Blocking() && d.Kind != task.ParentChild && !in[other.ID] {
				in[other.ID] = true
				next = append(next, other)
			}
		}
	}
	return slices.DeleteFunc(list, func(x *task.Task) bool { return !in[x.ID] }), nil
}

// picture is a set of tasks to draw.
type picture struct {
	graph *task.Graph
	list  []*task.Task
	now   time.Time
}

// edge is a dependency between two tasks of a picture.
type edge struct {
	Task string    `json:"task"`
	On   string    `json:"depends_on"`
	Kind task.Kind `json:"type"`
}

// listEdges returns the dependencies with both ends in the picture.
func (p picture) listEdges() []edge {
	in := map[string]bool{}
	for _, x := range p.list {
		in[x.ID] = true
	}
	list := []edge{}
	for _, x := range p.list {
		for _, d := range x.Dependencies {
			if in[d.DependsOnID] {
				list = append(list, edge{x.ID, d.DependsOnID, d.Kind})
			}
		}
	}
	return list
}

// jsonView is the picture in JSON.
func (p picture) jsonView() map[string]any {
	type node struct {
		ID       string `json:"id"`
		Title    string `json:"title"`
		State    string `json:"state"`
		Priority int    `json:"priority"`
		Type     string `json:"issue_type"`
	}
	nodes := []node{}
	for _, x := range p.list {
		nodes = append(nodes, node{x.ID, x.Title, stateWord(x, p.graph.State(x, p.now)), x.Priority, x.Type})
	}
	return map[string]any{"tasks": nodes, "dependencies": p.listEdges()}
}

// printTree draws tasks with their parts below them, each with the tasks that it waits for.
func (p picture) printTree() string {
	below := map[string][]*task.Task{}
	in := map[string]bool{}
	for _, x := range p.list {
		in[x.ID] = true
	}
	for _, x := range p.list {
		above := ""
		if parents := x.Parents(); len(parents) > 0 && in[parents[0]] {
			above = parents[0]
		}
		below[above] = append(below[above], x)
	}
	var b strings.Builder
	for _, x := range below[""] {
		fmt.Fprintln(&b, p.taskLine(x))
		branch(&b, "", below[x.ID], func(c *task.Task) (string, []*task.Task) { return p.taskLine(c), below[c.ID] })
	}
	return b.String()
}

// branch draws the items below a line. look returns the line of an item, and the items below it.
func branch[T any](b *strings.Builder, indent string, list []T, look func(T) (string, []T)) {
	for i, x := range list {
		arm, deeper := "├── ", "│   "
		if i == len(list)-1 {
			arm, deeper = "└── ", "    "
		}
		line, below := look(x)
		fmt.Fprintln(b, indent+arm+line)
		branch(b, indent+deeper, below, look)
	}
}

// taskLine is a task in the tree.
func (p picture) taskLine(x *task.Task) string {
	s := p.graph.State(x, p.now)
	text := fmt.Sprintf("%s  %s  P%d  %s", stateCell(x, s), x.ID, x.Priority, term.Line(x.Title))
	if note := noteCell(x, s); note != "" {
		text += "  (" + note + ")"
	}
	return text
}

// arrowStyle returns how to draw a kind of dependency: its label, and whether the line is thin.
func arrowStyle(k task.Kind) (label string, thin bool) {
	switch k {
	case task.Blocks:
		return "", false
	case task.ConditionalBlocks:
		return "if it fails", false
	case task.WaitsFor:
		return "its parts", false
	case task.ParentChild:
		return "part", true
	}
	return string(k), true
}

// printDot draws for Graphviz. Arrows lead from a task to those that wait for it.
func (p picture) printDot() string {
	var b strings.Builder
	b.WriteString("digraph tasks {\n  rankdir=LR;\n  node [shape=box];\n")
	for _, x := range p.list {
		style := map[string]string{"ready": ", penwidth=2", "claimed": ", style=bold", "closed": ", style=dotted"}[stateWord(x, p.graph.State(x, p.now))]
		fmt.Fprintf(&b, "  %s [label=%s%s];\n", dotText(x.ID), dotText(x.ID+"\n"+x.Title), style)
	}
	for _, e := range p.listEdges() {
		label, thin := arrowStyle(e.Kind)
		style := ""
		if thin {
			style = ", style=dashed"
		}
		fmt.Fprintf(&b, "  %s -> %s [label=%s%s];\n", dotText(e.On), dotText(e.Task), dotText(label), style)
	}
	b.WriteString("}\n")
	return b.String()
}

// dotText quotes a text for Graphviz, and keeps line breaks.
func dotText(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(term.Sanitize(line))
	}
	return `"` + strings.Join(lines, `\n`) + `"`
}

// mermaid draws the same for Mermaid.
func (p picture) mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	names := map[string]string{} // an ID may be a keyword of the language
	for i, x := range p.list {
		names[x.ID] = fmt.Sprint("t", i)
		fmt.Fprintf(&b, "  t%d[\"%s<br/>%s\"]\n", i, mermaidText(x.ID), mermaidText(x.Title))
	}
	for _, e := range p.listEdges() {
		label, thin := arrowStyle(e.Kind)
		line := "-->"
		if thin {
			line = "-.->"
		}
		if label != "" {
			line += `|"` + mermaidText(label) + `"|`
		}
		fmt.Fprintf(&b, "  %s %s %s\n", names[e.On], line, names[e.Task])
	}
	return b.String()
}

// mermaidText quotes a text for Mermaid, which interprets HTML and entities.
func mermaidText(s string) string {
	return strings.NewReplacer("#", "#35;", `"`, "#quot;", "<", "#lt;", ">", "#gt;", "&", "#amp;", "`", "#96;").Replace(term.Sanitize(s))
}
