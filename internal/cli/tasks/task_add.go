package tasks

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bothy-dev/bothy/internal/cli/cmdline"
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/spec"
)

// taskFields are the flags for a task's fields. Only given flags count.
type taskFields struct {
	title, description, bodyFile, design, acceptance, notes string
	kind, priority, assignee, external, specID              string
	due, deferred, metadata                                 string
	minutes                                                 int
}

func (f *taskFields) addFlags(c *cobra.Command) {
	fs := c.Flags()
	fs.StringVarP(&f.description, "description", "d", "", "the work to do, and its reason")
	fs.StringVarP(&f.bodyFile, "body-file", "F", "", "read the description from a file, or from standard input: -")
	fs.StringVar(&f.design, "design", "", "how it is to be done")
	fs.StringVar(&f.acceptance, "acceptance", "", "how one can tell that it is done")
	fs.StringVar(&f.notes, "notes", "", "anything else")
	fs.StringVarP(&f.kind, "type", "t", "task", "task, bug, feature, epic, chore, ...")
	fs.StringVarP(&f.priority, "priority", "p", "2", "0, the most urgent, to 4")
	fs.StringVarP(&f.assignee, "assignee", "a", "", "the worker that it is for; no other worker gets it")
	fs.IntVar(&f.minutes, "estimate", 0, "how long it takes, in minutes")
	fs.StringVar(&f.due, "due", "", "when it has to be done: 2026-12-31, a full time, or 8h for in eight hours")
	fs.StringVar(&f.deferred, "defer", "", "it is not ready before this time")
	fs.StringVar(&f.external, "external-ref", "", "its name elsewhere, e.g. gh-9")
	fs.StringVar(&f.specID, "spec-id", "", "the specification that it belongs to")
	fs.StringVar(&f.metadata, "metadata", "", "anything for programs, as JSON")
	cmdline.MayBeEmpty(c, "description", "design", "acceptance", "notes")
	cmdline.CompleteFlag(c, "type", cmdline.OneOf(task.Types()...))
	cmdline.CompleteFlag(c, "priority", cmdline.OneOf("0", "1", "2", "3", "4"))
	cmdline.CompleteFlag(c, "body-file", cmdline.FileNames)
}

// readDescription reads the description if it is in a file. That may take as long as a user types, so it must
// not hold the tasks' lock.
func (f *taskFields) readDescription(cmd *cobra.Command, a *app) (err error) {
	given := cmd.Flags().Changed
	switch {
	case given("description") && given("body-file"):
		return spec.Errorf(spec.ErrUsage, "--description and --body-file exclude each other")
	case given("body-file"):
		f.description, err = a.readText(f.bodyFile)
	}
	return err
}

// setFields puts the given fields into a task. An empty value clears a field.
func (f *taskFields) setFields(cmd *cobra.Command, x *task.Task, now time.Time) (err error) {
	given := cmd.Flags().Changed
	for name, field := range map[string]struct {
		to   *string
		from string
	}{
		"title": {&x.Title, f.title}, "description": {&x.Description, f.description}, "design": {&x.Design, f.design},
		"acceptance": {&x.AcceptanceCriteria, f.acceptance}, "notes": {&x.Notes, f.notes}, "type": {&x.Type, f.kind},
		"assignee": {&x.Assignee, f.assignee}, "spec-id": {&x.SpecID, f.specID},
	} {
		if given(name) {
			*field.to = field.from
		}
	}
	if given("body-file") {
		x.Description = f.description
	}
	if given("estimate") {
		x.EstimatedMinutes = &f.minutes
	}
	if given("external-ref") {
		x.ExternalRef = &f.external
	}
	if given("priority") {
		if x.Priority, err = parsePriority(f.priority); err != nil {
			return err
		}
	}
	if given("metadata") {
		if !json.Valid([]byte(f.metadata)) {
			return spec.Errorf(spec.ErrUsage, "--metadata is not JSON")
		}
		x.Metadata = json.RawMessage(f.metadata)
	}
	if given("due") {
		if x.DueAt, err = parseFuture("due", f.due, now); err != nil {
			return err
		}
	}
	if given("defer") {
		x.DeferUntil, err = parseFuture("defer", f.deferred, now)
	}
	return err
}

// readText reads a text from a file or standard input.
func (a *app) readText(path string) (string, error) {
	var data []byte
	var err error
	if path == "-" {
		data, err = store.ReadAll(a.In, task.MaxDocument)
	} else {
		data, err = a.ReadFile(path, task.MaxDocument)
	}
	if err != nil {
		return "", ReadError(path, err)
	}
	return strings.TrimRight(string(data), "\n"), nil
}

// ReadError returns the error for a file that cannot be read.
func ReadError(path string, err error) error {
	class := spec.ErrUsage
	if errors.Is(err, os.ErrNotExist) {
		class = spec.ErrNotFound
	}
	return hostpath.NotOpened(class, "read "+strconv.Quote(path), err)
}

// parsePriority parses 0 to 4, also as P0 to P4.
func parsePriority(s string) (int, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(strings.ToUpper(s), "P"))
	if err != nil || n < 0 || n > 4 {
		return 0, spec.Errorf(spec.ErrUsage, "%q is not a priority", s).WithHint("0 is the most urgent, 2 usual, 4 can wait")
	}
	return n, nil
}

// parseFuture parses a day, a time, or a duration from now; it returns nil for "".
func parseFuture(flag, s string, now time.Time) (*time.Time, error) {
	if s == "" {
		return nil, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		t := now.Add(d)
		return &t, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return &t, nil
	}
	if t, err := time.ParseInLocation(time.DateOnly, s, time.Local); err == nil {
		return &t, nil
	}
	return nil, spec.Errorf(spec.ErrUsage, "--%s %q is not a time", flag, s).WithHint("write 2026-12-31, 2026-12-31T18:00:00Z, or 8h")
}

// parseLink parses a dependency: [KIND:]ID, where KIND defaults to blocks. IDs may contain colons,
// but kinds do not.
func parseLink(s string) (task.Link, error) {
	kind, id, ok := strings.Cut(s, ":")
	if !ok || !slices.Contains(task.Kinds(), kind) {
		kind, id = string(task.Blocks), s
	}
	if id == "" {
		return task.Link{}, spec.Errorf(spec.ErrUsage, "%q names no task", s).WithHint("write ID, or KIND:ID")
	}
	return task.Link{Kind: task.Kind(kind), On: id}, nil
}

func (t *taskCall) addCommand() *cobra.Command {
	var f taskFields
	var id, parent string
	var labels, deps []string
	c := &cobra.Command{
		Use: "add TITLE | -", Aliases: []string{"create"}, Short: "Add a task",
		Long:    "Adds a task and prints its ID. With - instead of a title, tasks are read from standard\ninput: JSON objects with the fields of Beads, of which only \"title\" must be there. All of\nthem are added, or none.",
		Example: "  bothy task add 'Round taxes' -t bug -p 1 --dep bd-a1b2\n  bothy task add 'Found on the way' --dep discovered-from:bd-a1b2\n  echo '{\"title\":\"One\"} {\"title\":\"Two\"}' | bothy task add -",
		Args:    cmdline.Exactly(1, "a title, in quotes, or -"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var links []task.Link
			for _, d := range deps {
				l, err := parseLink(d)
				if err != nil {
					return err
				}
				links = append(links, l)
			}
			list := []task.Task{{ID: id, Title: args[0], Priority: 2}}
			if args[0] == "-" {
				if id != "" || f.bodyFile == "-" {
					return spec.Errorf(spec.ErrUsage, "--id and --body-file - do not go with tasks from standard input")
				}
				var err error
				if list, err = t.readTasks(); err != nil {
					return err
				}
			}
			if err := f.readDescription(cmd, t.app); err != nil {
				return err
			}
			var added []*task.Task
			g, err := t.change(cmd.Context(), func(g *task.Graph, who string, now time.Time) (err error) {
				for i := range list {
					if err := f.setFields(cmd, &list[i], now); err != nil {
						return err
					}
					list[i].Labels = withLabels(list[i].Labels, labels)
				}
				added, err = g.AddAll(list, parent, links, who, now)
				return err
			})
			if err != nil {
				return err
			}
			if t.JSON && args[0] != "-" {
				return t.printTask(g, added[0])
			}
			return t.printIDs(g, added, nil)
		},
	}
	f.addFlags(c)
	c.Flags().StringVar(&id, "id", "", "give it this ID (default: a short random one)")
	c.Flags().StringVar(&parent, "parent", "", "make it a part of this task")
	c.Flags().StringArrayVarP(&labels, "label", "l", nil, "a label; repeatable")
	c.Flags().StringArrayVar(&deps, "dep", nil, "it depends on [KIND:]ID, e.g. discovered-from:bd-a1b2 (default KIND blocks); repeatable")
	cmdline.CompleteFlag(c, "parent", t.taskIDs)
	cmdline.CompleteFlag(c, "dep", t.taskIDs)
	return t.addActorFlag(c)
}

// withLabels adds labels that are missing.
func withLabels(list, more []string) []string {
	for _, l := range more {
		if !slices.Contains(list, l) {
			list = append(list, l)
		}
	}
	return list
}

// maxTaskInput bounds one input, in bytes.
const maxTaskInput = 256 << 20

// readTasks reads new tasks from standard input.
func (t *taskCall) readTasks() (list []task.Task, err error) {
	data, err := store.ReadAll(t.In, maxTaskInput)
	if err != nil {
		return nil, ReadError("-", err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	for n := 1; ; n++ {
		var doc map[string]json.RawMessage
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, spec.Errorf(spec.ErrUsage, "task %d on standard input: %w", n, err).WithHint(`write objects, as {"title":"…"}`)
		}
		x, err := newTask(doc)
		if err != nil {
			return nil, spec.Errorf(spec.ErrUsage, "task %d on standard input: %w", n, err)
		}
		list = append(list, *x)
	}
	if len(list) == 0 {
		return nil, spec.Errorf(spec.ErrUsage, "no task on standard input").WithHint(`write objects, as {"title":"…"}`)
	}
	return list, nil
}

// placeholder stands for the ID of a task that has none yet.
const placeholder = "new"

// newTask makes a task from a user's document. Fields with a usual value for new tasks may be
// missing.
func newTask(doc map[string]json.RawMessage) (*task.Task, error) {
	if doc == nil {
		return nil, errors.New("it is null")
	}
	if doc["priority"] == nil {
		doc["priority"] = json.RawMessage("2")
	}
	id := doc["id"]
	doc["id"] = json.RawMessage(cmp.Or(string(id), `"`+placeholder+`"`))
	data, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	x, err := task.Parse(data)
	if err == nil && id == nil {
		x.ID = ""
	}
	return x, err
}
