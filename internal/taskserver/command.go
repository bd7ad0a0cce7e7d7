package taskserver

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/spec"
)

// do carries a command out, and gives what it prints.
func (s *Server) do(ctx context.Context, args []string) (string, error) {
	name := ""
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	switch name {
	case "ready":
		return s.ready(ctx, args)
	case "list", "ls":
		return s.list(ctx, args)
	case "show":
		return s.show(ctx, args)
	case "create", "add", "new":
		return s.create(ctx, args)
	case "update":
		return s.update(ctx, args)
	case "close", "done":
		return s.close(ctx, args)
	case "dep":
		return s.dep(ctx, args)
	case "prime", "", "help", "--help", "-h":
		return s.prime(ctx)
	}
	return "", spec.Errorf(spec.ErrUsage, "unknown command %s: there are ready, list, show, create, update, close, dep add and prime", name)
}

// flags are those of a command. They may stand anywhere.
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

// words are flags that may be given several times, or with commas.
func (f *flags) words(name string) *[]string {
	list := &[]string{}
	f.Func(name, "", func(v string) error {
		*list = append(*list, strings.Split(v, ",")...)
		return nil
	})
	return list
}

// parse gives the arguments that are no flags, of which there are so many.
func (f *flags) parse(args []string, least, most int) ([]string, error) {
	var plain []string
	for len(args) > 0 {
		rest := len(args)
		if err := f.Parse(args); err != nil {
			return nil, spec.Errorf(spec.ErrUsage, "%s: %w", f.Name(), err)
		}
		if n := rest - f.NArg(); n > 0 && args[n-1] == "--" { // what follows are no flags
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

// given tells whether a flag was.
func (f *flags) given(name string) (was bool) {
	f.Visit(func(x *flag.Flag) { was = was || x.Name == name })
	return was
}

func (s *Server) ready(ctx context.Context, args []string) (string, error) {
	f := newFlags("ready")
	most := f.Int("n", 100, "")
	f.IntVar(most, "limit", 100, "")
	labels, parent := f.words("label"), f.String("parent", "", "")
	if _, err := f.parse(args, 0, 0); err != nil {
		return "", err
	}
	desk := task.Desk{Store: s.Store, Now: s.now}
	list, err := desk.Ready(ctx, task.Filter{Labels: *labels, Parent: *parent}, task.ByPriority)
	if err != nil {
		return "", err
	}
	if *most > 0 {
		list = list[:min(len(list), *most)]
	}
	return f.print(list)
}

func (s *Server) list(ctx context.Context, args []string) (string, error) {
	f := newFlags("list")
	all, status := f.Bool("all", false, ""), f.String("status", "", "")
	if _, err := f.parse(args, 0, 0); err != nil {
		return "", err
	}
	g, err := s.Store.View(ctx)
	if err != nil {
		return "", err
	}
	var list []*task.Task
	for _, t := range g.All() {
		if *status != "" && string(t.Status) != *status || *status == "" && !*all && t.Status == task.Closed {
			continue
		}
		list = append(list, t)
	}
	return f.print(list)
}

func (s *Server) show(ctx context.Context, args []string) (string, error) {
	f := newFlags("show")
	ids, err := f.parse(args, 1, 1)
	if err != nil {
		return "", err
	}
	g, err := s.Store.View(ctx)
	if err != nil {
		return "", err
	}
	t, err := g.Find(ids[0])
	if err != nil {
		return "", err
	}
	if f.json {
		return f.print([]*task.Task{t})
	}
	return s.page(g, t), nil
}

func (s *Server) create(ctx context.Context, args []string) (string, error) {
	f := newFlags("create")
	var t task.Task
	for _, name := range []string{"description", "d"} {
		f.StringVar(&t.Description, name, "", "")
	}
	for _, name := range []string{"priority", "p"} {
		f.Func(name, "", func(v string) error { return priority(&t.Priority, v) })
	}
	t.Priority = 2
	for _, name := range []string{"type", "t"} {
		f.StringVar(&t.Type, name, "", "")
	}
	f.StringVar(&t.AcceptanceCriteria, "acceptance", "", "")
	labels, deps, parent := f.words("labels"), f.words("deps"), f.String("parent", "", "")
	titles, err := f.parse(args, 1, 1)
	if err != nil {
		return "", err
	}
	t.Title, t.Labels = titles[0], *labels
	links, err := linksOf(*deps)
	if err != nil {
		return "", err
	}
	var made *task.Task
	err = s.change(ctx, spec.TasksAdd, args, func(g *task.Graph) (err error) {
		made, err = g.Add(t, *parent, links, s.Who, s.now())
		return err
	})
	if err != nil {
		return "", err
	}
	s.added++
	return f.print([]*task.Task{made})
}

func priority(to *int, v string) error {
	n := 0
	if _, err := fmt.Sscanf(strings.TrimPrefix(strings.ToUpper(v), "P"), "%d", &n); err != nil || n < 0 || n > 4 {
		return fmt.Errorf("%q is no priority: 0, the most urgent, to 4", v)
	}
	*to = n
	return nil
}

// linksOf reads dependencies as Beads writes them: KIND:ID, or an ID that it waits for.
func linksOf(deps []string) (links []task.Link, err error) {
	for _, d := range deps {
		kind, on, ok := strings.Cut(d, ":")
		if !ok {
			kind, on = string(task.Blocks), d
		}
		if on == "" {
			return nil, spec.Errorf(spec.ErrUsage, "%q is no dependency: write KIND:ID", d)
		}
		links = append(links, task.Link{Kind: task.Kind(kind), On: on})
	}
	return links, nil
}

func (s *Server) update(ctx context.Context, args []string) (string, error) {
	f := newFlags("update")
	claim, release := f.Bool("claim", false, ""), f.Bool("release", false, "")
	status, title := f.String("status", "", ""), f.String("title", "", "")
	description, notes := f.String("description", "", ""), f.String("notes", "", "")
	ids, err := f.parse(args, 1, 1)
	if err != nil {
		return "", err
	}
	var t *task.Task
	err = s.change(ctx, spec.TasksWrite, args, func(g *task.Graph) (err error) {
		now := s.now()
		switch {
		case *claim || *status == string(task.InProgress):
			if t, err = g.Claim(ids[0], s.Who, task.UsualLease, now); err != nil {
				return err
			}
		case *release:
			if t, err = g.Release(ids[0], s.Who, false, now); err != nil {
				return err
			}
		case *status == string(task.Closed):
			return spec.Errorf(spec.ErrUsage, "to end a task there is close")
		}
		t, err = g.Update(ids[0], s.Who, false, now, func(t *task.Task) error {
			if *status != "" && *status != string(task.InProgress) {
				t.Status = task.Status(*status)
			}
			set(f, "title", &t.Title, *title)
			set(f, "description", &t.Description, *description)
			set(f, "notes", &t.Notes, *notes)
			return nil
		})
		return err
	})
	if err != nil {
		return "", err
	}
	return f.print([]*task.Task{t})
}

func set(f *flags, name string, to *string, value string) {
	if f.given(name) {
		*to = value
	}
}

func (s *Server) close(ctx context.Context, args []string) (string, error) {
	f := newFlags("close")
	reason := f.String("reason", "", "")
	f.StringVar(reason, "r", "", "")
	ids, err := f.parse(args, 1, 100)
	if err != nil {
		return "", err
	}
	var closed []*task.Task
	err = s.change(ctx, spec.TasksWrite, args, func(g *task.Graph) error {
		for _, id := range ids {
			t, _, err := g.Close(id, s.Who, task.End{Reason: *reason}, s.now())
			if err != nil {
				return err
			}
			closed = append(closed, t)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return f.print(closed)
}

func (s *Server) dep(ctx context.Context, args []string) (string, error) {
	if len(args) == 0 || args[0] != "add" {
		return "", spec.Errorf(spec.ErrUsage, "dep: only dep add ID ON [--type KIND] is known here")
	}
	f := newFlags("dep add")
	kind := f.String("type", string(task.Blocks), "")
	ids, err := f.parse(args[1:], 2, 2)
	if err != nil {
		return "", err
	}
	var t *task.Task
	err = s.change(ctx, spec.TasksWrite, args, func(g *task.Graph) (err error) {
		t, err = g.Link(ids[0], task.Link{Kind: task.Kind(*kind), On: ids[1]}, s.Who, s.now())
		return err
	})
	if err != nil {
		return "", err
	}
	return f.print([]*task.Task{t})
}

// print gives tasks as lines, or as their documents.
func (f *flags) print(list []*task.Task) (string, error) {
	var b bytes.Buffer
	if !f.json {
		for _, t := range list {
			fmt.Fprintf(&b, "%s  P%d  %s  %s\n", t.ID, t.Priority, t.Status, oneLine(t.Title))
		}
		return b.String(), nil
	}
	docs := []json.RawMessage{}
	for _, t := range list {
		doc, err := t.Encode()
		if err != nil {
			return "", err
		}
		docs = append(docs, doc)
	}
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(docs)
	return b.String(), err
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// page is all an agent needs to know of a task.
func (s *Server) page(g *task.Graph, t *task.Task) string {
	var b strings.Builder
	state := g.State(t, s.now())
	fmt.Fprintf(&b, "%s  %s\nstatus %s, priority %d, type %s\n", t.ID, oneLine(t.Title), t.Status, t.Priority, t.Type)
	if t.Assignee != "" {
		fmt.Fprintf(&b, "assignee %s\n", t.Assignee)
	}
	for _, blocker := range state.Blockers {
		fmt.Fprintf(&b, "waits for %s (%s)\n", blocker.ID, blocker.Kind)
	}
	for _, p := range []struct{ name, text string }{
		{"Description", t.Description}, {"Design", t.Design}, {"Acceptance criteria", t.AcceptanceCriteria}, {"Notes", t.Notes},
	} {
		if p.text != "" {
			fmt.Fprintf(&b, "\n%s:\n%s\n", p.name, strings.TrimRight(p.text, "\n"))
		}
	}
	return b.String()
}

// prime tells an agent what there is, and how it works with it.
func (s *Server) prime(ctx context.Context) (string, error) {
	g, err := s.Store.View(ctx)
	if err != nil {
		return "", err
	}
	ready := g.Ready(&task.Filter{}, task.ByPriority, s.now())
	var b strings.Builder
	fmt.Fprintf(&b, "The tasks of this project, of which %d can begin now. This sandbox may %s them.\n\n", len(ready), s.Access)
	for _, line := range []struct{ access, text string }{
		{spec.TasksRead, "bd ready [--json]               what can begin"},
		{spec.TasksRead, "bd list [--all] [--json]        all that is not closed"},
		{spec.TasksRead, "bd show ID [--json]             one of them"},
		{spec.TasksAdd, "bd create TITLE [-d TEXT] [-p 0-4] [--deps discovered-from:ID]"},
		{spec.TasksWrite, "bd update ID --claim            take it; half an hour, again for longer"},
		{spec.TasksWrite, "bd update ID [--notes TEXT] [--description TEXT] [--status STATUS] [--release]"},
		{spec.TasksWrite, "bd close ID... [--reason TEXT]"},
		{spec.TasksWrite, "bd dep add ID ON [--type blocks]"},
	} {
		if s.may(line.access) == nil {
			fmt.Fprintln(&b, line.text)
		}
	}
	for i, t := range ready[:min(len(ready), 5)] {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%s  P%d  %s\n", t.ID, t.Priority, oneLine(t.Title))
	}
	return b.String(), nil
}
