package tasks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/internal/task/book"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

func (a *app) taskCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "task", Aliases: []string{"tasks"}, Short: "Keep the tasks of a project",
		Long: "Tasks of a project: open work, dependencies, and claims with their deadlines.\nThey are kept on this machine, where no sandbox can change them, unless it is\nmade with --share-tasks. Fields and rules are those of Beads, whose issues.jsonl can be\nimported and exported.",
	}
	for _, build := range []func(*taskCall) *cobra.Command{
		(*taskCall).addCommand, (*taskCall).lsCommand, (*taskCall).showCommand, (*taskCall).readyCommand, (*taskCall).claimCommand,
		(*taskCall).updateCommand, (*taskCall).closeCommand, (*taskCall).reopenCommand, (*taskCall).depCommand,
		(*taskCall).graphCommand, (*taskCall).importCommand, (*taskCall).exportCommand,
	} {
		c.AddCommand(build(&taskCall{app: a}))
	}
	return c
}

// taskCall is a call of one of the task commands: its project and its caller.
type taskCall struct {
	*app
	dir, actor string
}

// addProjectFlags adds --project and --json to a command.
func (t *taskCall) addProjectFlags(c *cobra.Command) *cobra.Command {
	c.Flags().StringVarP(&t.dir, "project", "C", "", "the project, a directory (default: the nearest one, here or above, that has tasks; else this one)")
	cmdline.CompleteFlag(c, "project", cmdline.FileNames)
	if c.ValidArgsFunction == nil {
		c.ValidArgsFunction = t.taskIDs
	}
	return t.JSONFlag(c)
}

// addActorFlag also adds --actor, for a command that changes something.
func (t *taskCall) addActorFlag(c *cobra.Command) *cobra.Command {
	c.Flags().StringVar(&t.actor, "actor", "", "name of the worker (default: BOTHY_ACTOR, else USER)")
	return t.addProjectFlags(c)
}

// callerName returns the name of the caller.
func (t *taskCall) callerName() (string, error) {
	who := cmp.Or(t.actor, os.Getenv("BOTHY_ACTOR"), os.Getenv("USER"), fmt.Sprint("uid-", os.Getuid()))
	return who, task.CheckWho(who)
}

// openBook opens the tasks of the selected project.
func (t *taskCall) openBook(ctx context.Context) (*book.Book, error) {
	state, err := store.Dir()
	if err != nil {
		return nil, err
	}
	s, err := store.Open(state)
	if err != nil {
		return nil, err
	}
	paths, err := t.Paths()
	if err != nil {
		return nil, err
	}
	dir, err := RealDir(paths, cmp.Or(t.dir, "."))
	if err != nil {
		return nil, err
	}
	if t.dir != "" {
		return book.Open(s.Tasks(), dir), nil
	}
	return book.NearestTo(ctx, s.Tasks(), dir)
}

// RealDir returns the real path of a directory.
func RealDir(paths *hostpath.Guard, dir string) (string, error) {
	path, err := paths.Real(dir)
	var info os.FileInfo
	if err == nil {
		info, err = os.Stat(path)
	}
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", spec.Errorf(spec.ErrNotFound, "no project %s: the directory does not exist", dir)
	case err != nil:
		return "", &spec.Error{Op: "find the project " + dir, Err: err}
	case !info.IsDir():
		return "", spec.Errorf(spec.ErrUsage, "the project %s is not a directory", dir)
	}
	return path, nil
}

// viewTasks returns the tasks.
func (t *taskCall) viewTasks(ctx context.Context) (*task.Graph, error) {
	b, err := t.openBook(ctx)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	return b.View(ctx)
}

// findTask returns the tasks, and the one with an ID.
func (t *taskCall) findTask(ctx context.Context, id string) (*task.Graph, *task.Task, error) {
	g, err := t.viewTasks(ctx)
	if err != nil {
		return nil, nil, err
	}
	x, err := g.Find(id)
	return g, x, err
}

// change changes the tasks, and returns them after the change.
func (t *taskCall) change(ctx context.Context, f func(g *task.Graph, who string, now time.Time) error) (g *task.Graph, err error) {
	who, err := t.callerName()
	if err != nil {
		return nil, err
	}
	b, err := t.openBook(ctx)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	err = b.Change(ctx, func(held *task.Graph) error {
		g = held
		return f(g, who, time.Now().UTC())
	})
	return g, err
}

// taskIDs completes the ID of a task that is not closed, or for reopen of one that is.
func (t *taskCall) taskIDs(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	g, err := t.viewTasks(context.Background()) // completion gets no context from Execute's caller
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var list []string
	for _, x := range g.All() {
		if closed := x.Status == task.Closed; closed == (cmd.Name() == "reopen") && !slices.Contains(args, x.ID) {
			list = append(list, x.ID+"\t"+x.Title)
		}
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}

// taskView is what the CLI adds to a task's document.
type taskView struct {
	State     string         `json:"state"`
	Ready     bool           `json:"ready"`
	BlockedBy []task.Blocker `json:"blocked_by"`
	Parents   []string       `json:"parents"`
	Children  []string       `json:"children"`
}

// stateWord returns the state of a task in one word.
func stateWord(x *task.Task, s task.State) string {
	switch s.Reason {
	case task.ReasonNone:
		return "ready"
	case task.ReasonStatus:
		return string(x.Status)
	}
	return string(s.Reason)
}

// stateCell returns the word with its sign.
func stateCell(x *task.Task, s task.State) string {
	sign := "◇"
	switch s.Reason {
	case task.ReasonNone:
		sign = "○"
	case task.ReasonClaimed:
		sign = "◐"
	case task.ReasonBlocked:
		sign = "●"
	case task.ReasonDeferred:
		sign = "❄"
	case task.ReasonClosed:
		sign = "✓"
	}
	return sign + " " + term.Sanitize(stateWord(x, s))
}

func viewOf(g *task.Graph, x *task.Task, now time.Time) taskView {
	s := g.State(x, now)
	v := taskView{State: stateWord(x, s), Ready: s.Ready, BlockedBy: append([]task.Blocker{}, s.Blockers...), Parents: append([]string{}, x.Parents()...), Children: []string{}}
	for _, c := range g.Children(x.ID) {
		v.Children = append(v.Children, c.ID)
	}
	return v
}

// document is a task in JSON: the fields of Beads, and its state.
type document []byte

func (d document) MarshalJSON() ([]byte, error) { return d, nil }

func documentOf(g *task.Graph, x *task.Task, now time.Time) (document, error) {
	doc, err := x.EncodeWith(viewOf(g, x, now))
	return doc, err
}

func documents(g *task.Graph, list []*task.Task) ([]document, error) {
	out := make([]document, 0, len(list))
	now := time.Now()
	for _, x := range list {
		doc, err := documentOf(g, x, now)
		if err != nil {
			return nil, err
		}
		out = append(out, doc)
	}
	return out, nil
}

// PrintTasks prints tasks as JSON, with the other members of also.
func PrintTasks(c *console.Console, g *task.Graph, list []*task.Task, also map[string]any) error {
	docs, err := documents(g, list)
	if err != nil {
		return err
	}
	out := map[string]any{"tasks": docs}
	maps.Copy(out, also)
	return c.PrintJSON(out)
}

// printTask prints one task as JSON.
func (t *taskCall) printTask(g *task.Graph, x *task.Task) error {
	doc, err := documentOf(g, x, time.Now())
	if err != nil {
		return err
	}
	return t.PrintJSON(doc)
}

// printIDs prints the IDs of tasks, or with --json the whole tasks.
func (t *taskCall) printIDs(g *task.Graph, list []*task.Task, also map[string]any) error {
	if t.JSON {
		return PrintTasks(t.Console, g, list, also)
	}
	for _, x := range list {
		fmt.Fprintln(t.Out, x.ID)
	}
	return nil
}

// TaskTable prints tasks, one per line. The title, which may be long, comes last.
func TaskTable(c *console.Console, g *task.Graph, list []*task.Task) error {
	w := c.Table()
	fmt.Fprintln(w, "ID\tSTATE\tP\tTYPE\tNOTE\tTITLE")
	now := time.Now()
	for _, x := range list {
		s := g.State(x, now)
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\n", x.ID, stateCell(x, s), x.Priority, term.Sanitize(x.Type), cmdline.Dash(noteCell(x, s)), term.Line(x.Title))
	}
	return w.Flush()
}

// noteCell explains a task's state: its assignee, its blockers, or its time.
func noteCell(x *task.Task, s task.State) string {
	until := ""
	if !s.Until.IsZero() {
		until = "until " + s.Until.Local().Format("01-02 15:04")
	}
	switch s.Reason {
	case task.ReasonBlocked:
		return "waits for " + blockerCell(s.Blockers)
	case task.ReasonDeferred:
		return until
	case task.ReasonClaimed:
		return strings.TrimSpace(term.Sanitize(x.Assignee) + " " + until)
	}
	return term.Sanitize(x.Assignee)
}

// blockerCell names the first blockers and counts the others.
func blockerCell(list []task.Blocker) string {
	const most = 2
	var names []string
	for _, b := range list {
		if !slices.Contains(names, b.ID) {
			names = append(names, b.ID)
		}
	}
	if more := len(names) - most; more > 0 {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" +%d", more)
	}
	return strings.Join(names, ", ")
}
