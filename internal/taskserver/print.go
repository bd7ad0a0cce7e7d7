package taskserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/spec"
)

// printTasks writes tasks as lines, or as their documents.
func (f *flags) printTasks(list []*task.Task) (string, error) {
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

// taskPage prints all that an agent needs to know about a task.
func (s *Server) taskPage(g *task.Graph, t *task.Task) string {
	var b strings.Builder
	state := g.State(t, s.timeNow())
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

// primeCommand tells an agent about the commands and tasks, and how to work with them.
func (s *Server) primeCommand(ctx context.Context) (string, error) {
	return s.readTasks(ctx, func(g *task.Graph) (string, error) { return s.primer(g), nil })
}

func (s *Server) primer(g *task.Graph) string {
	ready := g.Ready(&task.Filter{}, task.ByPriority, s.timeNow())
	var b strings.Builder
	fmt.Fprintf(&b, "The tasks of this project, of which %d can begin now. This sandbox may %s them.\n\n", len(ready), s.Access)
	for _, line := range []struct{ access, text string }{
		{spec.TasksRead, "bd ready [--json] [-l LABEL] [-t TYPE] [-p 0-4]   what can begin"},
		{spec.TasksRead, "bd blocked [--json]             what waits for others"},
		{spec.TasksRead, "bd list [--all] [--status STATUS] [--json]   all that is not closed"},
		{spec.TasksRead, "bd show ID [--json]             one of them"},
		{spec.TasksAdd, "bd create TITLE [-d TEXT] [-t TYPE] [-p 0-4] [--acceptance TEXT] [--deps discovered-from:ID]"},
		{spec.TasksWrite, "bd update ID --claim            take it; half an hour, again for longer"},
		{spec.TasksWrite, "bd ready --claim                take the first of what can begin"},
		{spec.TasksWrite, "bd update ID [-p 0-4] [-d TEXT] [--append-notes TEXT] [--add-label L] [--status open|blocked|deferred] [--release]"},
		{spec.TasksWrite, "bd close ID... [--reason TEXT]  and bd reopen ID..."},
		{spec.TasksWrite, "bd dep add ID ON [--type blocks], bd dep remove ID ON"},
	} {
		if s.checkAccess(line.access) == nil {
			fmt.Fprintln(&b, line.text)
		}
	}
	for i, t := range ready[:min(len(ready), 5)] {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%s  P%d  %s\n", t.ID, t.Priority, oneLine(t.Title))
	}
	return b.String()
}
