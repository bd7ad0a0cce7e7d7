package taskserver

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/spec"
)

// doCommand runs a command, and returns its output.
func (s *Server) doCommand(ctx context.Context, args []string) (string, error) {
	name := ""
	if len(args) > 1 && args[0] == "--json" { // Beads also allows it before the command
		args = append([]string{args[1], args[0]}, args[2:]...)
	}
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	switch name {
	case "ready":
		return s.readyCommand(ctx, args)
	case "list", "ls":
		return s.listCommand(ctx, args)
	case "blocked":
		return s.blocked(ctx, args)
	case "show":
		return s.showCommand(ctx, args)
	case "create", "add", "new":
		return s.create(ctx, args)
	case "update":
		return s.update(ctx, args)
	case "close", "done":
		return s.closeCommand(ctx, args)
	case "reopen":
		return s.reopen(ctx, args)
	case "dep":
		return s.depCommand(ctx, args)
	case "prime", "", "help", "--help", "-h":
		return s.primeCommand(ctx)
	}
	return "", spec.Errorf(spec.ErrUsage, "unknown command %s: there are ready, blocked, list, show, create, update, close, reopen, dep add, dep remove and prime", name)
}

// flags are a command's flags. They may be anywhere among its arguments.
type flags struct {
	*flag.FlagSet
	json bool
}

func newFlags(name string) *flags {
	f := &flags{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError)}
	f.SetOutput(io.Discard)
	f.BoolVar(&f.json, "json", false, "")
	return f
}

// addWords adds a flag that may be given several times, or with commas.
func (f *flags) addWords(to *[]string, name string) {
	f.Func(name, "", func(v string) (err error) {
		*to, err = withWords(*to, v)
		return err
	})
}

// maxWords bounds values that each cost a pass over the existing ones.
const maxWords = 100

// withWords adds words, with commas between them, to others.
func withWords(list []string, v string) ([]string, error) {
	list = append(list, strings.Split(v, ",")...)
	if len(list) > maxWords {
		return nil, fmt.Errorf("%d of them: at most %d at once", len(list), maxWords)
	}
	return list, nil
}

// parse returns the arguments that are not flags, and checks their number.
func (f *flags) parse(args []string, least, most int) ([]string, error) {
	var plain []string
	for len(args) > 0 {
		rest := len(args)
		if err := f.Parse(args); err != nil {
			return nil, spec.Errorf(spec.ErrUsage, "%s: %w", f.Name(), err)
		}
		if n := rest - f.NArg(); n > 0 && args[n-1] == "--" { // the rest are not flags
			plain, args = append(plain, f.Args()...), nil
		} else if args = f.Args(); len(args) > 0 {
			plain, args = append(plain, args[0]), args[1:]
		}
	}
	if len(plain) < least || len(plain) > most {
		return nil, spec.Errorf(spec.ErrUsage, "%s: %d arguments", f.Name(), len(plain))
	}
	return plain, nil
}

func (s *Server) readyCommand(ctx context.Context, args []string) (string, error) {
	f, c := newFlags("ready"), choice{}
	c.addFlags(f, 100)
	claim := f.Bool("claim", false, "")
	if _, err := f.parse(args, 0, 0); err != nil {
		return "", err
	}
	if !*claim {
		return s.readTasks(ctx, func(g *task.Graph) (string, error) {
			return f.printTasks(c.limitList(g.Ready(&c.Filter, task.ByPriority, s.timeNow())))
		})
	}
	if slices.Contains(c.Labels, task.LabelHuman) {
		return "", spec.Errorf(spec.ErrUsage, "ready --claim: a task with the label %s waits for a person", task.LabelHuman)
	}
	var t *task.Task
	err := s.change(ctx, spec.TasksWrite, args, func(g *task.Graph) (err error) {
		t, err = g.ClaimNext(&c.Filter, task.ByPriority, s.Who, task.UsualLease, s.timeNow())
		return err
	})
	if err != nil {
		return "", err
	}
	return f.printTasks([]*task.Task{t})
}

func (s *Server) listCommand(ctx context.Context, args []string) (string, error) {
	f, c := newFlags("list"), choice{}
	c.addFlags(f, 0)
	all, status := f.Bool("all", false, ""), f.String("status", "", "")
	f.StringVar(status, "s", "", "")
	if _, err := f.parse(args, 0, 0); err != nil {
		return "", err
	}
	return s.chosen(ctx, f, &c, func(_ *task.Graph, t *task.Task) bool {
		return string(t.Status) == *status || *status == "" && (*all || t.Status != task.Closed)
	})
}

// blocked lists tasks that wait for others.
func (s *Server) blocked(ctx context.Context, args []string) (string, error) {
	f, c := newFlags("blocked"), choice{}
	c.addFlags(f, 0)
	if _, err := f.parse(args, 0, 0); err != nil {
		return "", err
	}
	now := s.timeNow()
	return s.chosen(ctx, f, &c, func(g *task.Graph, t *task.Task) bool { return g.Reason(t, now) == task.ReasonBlocked })
}

// chosen prints the tasks that the flags choose and for which also returns true.
func (s *Server) chosen(ctx context.Context, f *flags, c *choice, also func(*task.Graph, *task.Task) bool) (string, error) {
	return s.readTasks(ctx, func(g *task.Graph) (string, error) {
		list := slices.DeleteFunc(g.All(), func(t *task.Task) bool { return !c.Matches(g, t) || !also(g, t) })
		return f.printTasks(c.limitList(list))
	})
}

func (s *Server) showCommand(ctx context.Context, args []string) (string, error) {
	f := newFlags("show")
	ids, err := f.parse(args, 1, 1)
	if err != nil {
		return "", err
	}
	return s.showTask(ctx, ids[0], f)
}

func (s *Server) create(ctx context.Context, args []string) (string, error) {
	f, x := newFlags("create"), fields{}
	x.addFlags(f)
	t := task.Task{Priority: 2}
	for _, name := range []string{"labels", "label", "l"} {
		f.addWords(&t.Labels, name)
	}
	var deps []string
	f.addWords(&deps, "deps")
	parent := f.String("parent", "", "")
	f.StringVar(&t.Title, "title", "", "")
	titles, err := f.parse(args, 0, 1)
	if err != nil {
		return "", err
	}
	switch {
	case len(titles) == 1 && t.Title == "":
		t.Title = titles[0]
	case len(titles) == 1 || t.Title == "":
		return "", spec.Errorf(spec.ErrUsage, "create: a task has one title")
	}
	x.setFields(&t)
	links, err := linksOf(deps)
	if err != nil {
		return "", err
	}
	return s.addTask(ctx, t, *parent, links, args, f)
}

func priority(to *int, v string) error {
	digit := strings.TrimPrefix(strings.TrimPrefix(v, "P"), "p")
	if len(digit) != 1 || digit[0] < '0' || digit[0] > '4' {
		return fmt.Errorf("%q is not a priority: 0, the most urgent, to 4", v)
	}
	*to = int(digit[0] - '0')
	return nil
}

// linksOf reads dependencies in Beads' form: KIND:ID, or an ID that the task waits for.
func linksOf(deps []string) (links []task.Link, err error) {
	for _, d := range deps {
		kind, on, ok := strings.Cut(d, ":")
		if !ok {
			kind, on = string(task.Blocks), d
		}
		if on == "" {
			return nil, spec.Errorf(spec.ErrUsage, "%q is not a dependency: write KIND:ID", d)
		}
		links = append(links, task.Link{Kind: task.Kind(kind), On: on})
	}
	return links, nil
}

func (s *Server) update(ctx context.Context, args []string) (string, error) {
	f, x := newFlags("update"), fields{}
	x.addChange(f)
	claim, release := f.Bool("claim", false, ""), f.Bool("release", false, "")
	status := f.String("status", "", "")
	f.StringVar(status, "s", "", "")
	ids, err := f.parse(args, 1, 1)
	if err != nil {
		return "", err
	}
	return s.updateTask(ctx, ids[0], change{claim: *claim, release: *release, status: *status, write: x.setFields}, args, f)
}

// maySet refuses a status that a sandbox may not set: one with a command of its own, or one that would
// block a task for ever.
func maySet(status string) error {
	switch task.Status(status) {
	case "", task.InProgress, task.Open, task.Blocked, task.Deferred:
		return nil
	case task.Closed:
		return spec.Errorf(spec.ErrUsage, "to end a task there is close")
	}
	return spec.Errorf(spec.ErrUsage, "no status %q can be set: there are open, blocked, deferred and in_progress, which claims it", status)
}

func (s *Server) closeCommand(ctx context.Context, args []string) (string, error) {
	f, end := newFlags("close"), task.End{}
	for _, name := range []string{"reason", "r"} {
		f.StringVar(&end.Reason, name, "", "")
	}
	f.StringVar(&end.Session, "session", "", "")
	ids, err := f.parse(args, 1, 100)
	if err != nil {
		return "", err
	}
	return s.closeTasks(ctx, ids, end, args, f)
}

func (s *Server) reopen(ctx context.Context, args []string) (string, error) {
	f := newFlags("reopen")
	ids, err := f.parse(args, 1, 100)
	if err != nil {
		return "", err
	}
	return s.changeEach(ctx, ids, args, f, func(g *task.Graph, id string) (*task.Task, error) { return g.Reopen(id, s.timeNow()) })
}

// changeEach changes all tasks or none. It stops between two tasks when ctx is done, because others wait.
func (s *Server) changeEach(ctx context.Context, ids, said []string, f *flags, change func(*task.Graph, string) (*task.Task, error)) (string, error) {
	var list []*task.Task
	err := s.change(ctx, spec.TasksWrite, said, func(g *task.Graph) error {
		for _, id := range ids {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			t, err := change(g, id)
			if err != nil {
				return err
			}
			list = append(list, t)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return f.printTasks(list)
}

func (s *Server) depCommand(ctx context.Context, args []string) (string, error) {
	verb := ""
	if len(args) > 0 {
		verb, args = args[0], args[1:]
	}
	adds := verb == "add"
	if !adds && verb != "remove" && verb != "rm" {
		return "", spec.Errorf(spec.ErrUsage, "dep: there are dep add ID ON [--type KIND] and dep remove ID ON")
	}
	f, kind := newFlags("dep "+verb), ""
	if adds {
		for _, name := range []string{"type", "t"} {
			f.StringVar(&kind, name, string(task.Blocks), "")
		}
	}
	ids, err := f.parse(args, 2, 2)
	if err != nil {
		return "", err
	}
	if adds {
		return s.linkTask(ctx, ids[0], task.Link{Kind: task.Kind(kind), On: ids[1]}, args, f)
	}
	var t *task.Task
	err = s.change(ctx, spec.TasksWrite, args, func(g *task.Graph) (err error) {
		t, err = g.Unlink(ids[0], ids[1], "", s.timeNow())
		return err
	})
	if err != nil {
		return "", err
	}
	return f.printTasks([]*task.Task{t})
}
