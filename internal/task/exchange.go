package task

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// ReadIssues reads tasks from an issues.jsonl of Beads, one document a line, and names the kinds of
// records that are not tasks. Empty lines are skipped; any other line makes the whole file invalid.
func ReadIssues(data []byte) (*Foreign, error) {
	f := &Foreign{}
	lines := map[string]int{}
	number := 0
	for line := range bytes.Lines(withoutMark(data)) {
		number++
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if isMarker(line) {
			return nil, spec.Errorf(spec.ErrUsage, "line %d is the mark of a conflict that git left", number).WithHint("resolve it in the file first")
		}
		beside, err := besideTasks(line, f)
		if beside && err == nil {
			continue
		}
		var t *Task
		if err == nil {
			t, err = Parse(line)
		}
		if err != nil {
			return nil, spec.Errorf(spec.ErrUsage, "line %d: %w", number, err).WithHint("nothing was taken over; mend the line, or take it out")
		}
		if first := lines[t.ID]; first > 0 {
			return nil, spec.Errorf(spec.ErrUsage, "%s occurs in line %d and in line %d", t.ID, first, number).WithHint("nothing was taken over; take one of them out")
		}
		lines[t.ID] = number
		f.Tasks = append(f.Tasks, t)
	}
	return f, nil
}

// withoutMark removes the byte order mark that some editors put before UTF-8.
func withoutMark(data []byte) []byte { return bytes.TrimPrefix(data, []byte("\ufeff")) }

// schema is the format that newer files of Beads name in their first line.
const schema = "beads-jsonl/1"

// besideTasks reports whether a line is a record of Beads that is not a task: the format of the file, or
// for example an agent's memory. Such a memory is noted in f.
func besideTasks(line []byte, f *Foreign) (bool, error) {
	var r struct {
		Schema *string `json:"_schema"`
		Type   *string `json:"_type"`
		ID     *string `json:"id"`
	}
	switch err := json.Unmarshal(line, &r); {
	case err != nil:
		return false, nil //nolint:nilerr // Parse tells the mistake
	case r.Schema != nil && r.ID == nil:
		if *r.Schema != schema && !strings.HasPrefix(*r.Schema, schema+".") {
			return true, fmt.Errorf("the file has the form %.40q, which is not known here", *r.Schema)
		}
		return true, nil
	case r.Type != nil && *r.Type != "issue":
		f.noteIgnored(fmt.Sprintf("records of the type %.40q", *r.Type))
		return true, nil
	}
	return false, nil
}

func isMarker(line []byte) bool {
	for _, mark := range []string{"<<<<<<<", "=======", ">>>>>>>"} {
		if bytes.HasPrefix(line, []byte(mark)) {
			return true
		}
	}
	return false
}

// Write writes every task in Beads' format: one document a line, by ID. A task that was read and not
// changed since is written byte for byte.
func (g *Graph) Write(w io.Writer) error {
	out := bufio.NewWriter(w)
	for _, t := range g.All() {
		doc, err := t.Encode()
		if err != nil {
			return fmt.Errorf("encode task %s: %w", t.ID, err)
		}
		if _, err := out.Write(append(slices.Clip(doc), '\n')); err != nil {
			return err
		}
	}
	return out.Flush()
}

// Taken is the result of an import, by the tasks' IDs.
type Taken struct {
	Added   []string `json:"added"`
	Updated []string `json:"updated"`
	Same    []string `json:"unchanged"`
	Older   []string `json:"older"` // changed here later, so unchanged
	Held    []string `json:"held"`  // held by a worker here, so unchanged
	Done    []string `json:"done"`  // done in the list, and still open here
}

// Import takes tasks over: new ones and those that were changed later than the ones here; with
// overwrite also the others. Tasks that are claimed here stay. If a task here came from an entry
// of a list, the entry's later changes are imported. A circle is refused.
func (g *Graph) Import(list []*Task, overwrite bool, now time.Time) (Taken, error) {
	taken := Taken{[]string{}, []string{}, []string{}, []string{}, []string{}, []string{}}
	for _, t := range list {
		where, err := g.importTask(t, overwrite, now, &taken)
		if err != nil {
			return taken, err
		}
		*where = append(*where, t.ID)
	}
	return taken, g.acyclic()
}

// importTask imports one task or not, and returns the result list that the task belongs to.
func (g *Graph) importTask(t *Task, overwrite bool, now time.Time, taken *Taken) (*[]string, error) {
	old := g.tasks[t.ID]
	if old == nil {
		g.accept(t)
		return &taken.Added, nil
	}
	if t.listed {
		return g.renewTask(old, t, overwrite, now, taken)
	}
	a, err := old.Encode()
	if err != nil {
		return nil, err
	}
	b, err := t.Encode()
	if err != nil {
		return nil, err
	}
	_, _, held := old.Claimed(now)
	switch {
	case bytes.Equal(a, b):
		return &taken.Same, nil
	case held:
		return &taken.Held, nil
	case !overwrite && !t.UpdatedAt.After(old.UpdatedAt):
		return &taken.Older, nil
	}
	g.accept(t)
	return &taken.Updated, nil
}
