package taskserver

import (
	"fmt"
	"slices"

	"github.com/bothy-dev/bothy/internal/task"
)

// fields are the flags for the fields of a task, under Beads' names. Only given flags count.
type fields struct{ set []func(*task.Task) }

func (x *fields) addFlags(f *flags) {
	x.addText(f, func(t *task.Task) *string { return &t.Description }, "description", "d")
	x.addText(f, func(t *task.Task) *string { return &t.Design }, "design")
	x.addText(f, func(t *task.Task) *string { return &t.AcceptanceCriteria }, "acceptance")
	x.addText(f, func(t *task.Task) *string { return &t.Notes }, "notes")
	x.addText(f, func(t *task.Task) *string { return &t.Type }, "type", "t")
	for _, name := range []string{"priority", "p"} {
		f.Func(name, "", func(v string) error {
			n := 0
			x.set = append(x.set, func(t *task.Task) { t.Priority = n })
			return priority(&n, v)
		})
	}
}

// addChange adds the flags for fields of an existing task.
func (x *fields) addChange(f *flags) {
	x.addFlags(f)
	x.addText(f, func(t *task.Task) *string { return &t.Title }, "title")
	f.Func("append-notes", "", func(v string) error {
		x.set = append(x.set, func(t *task.Task) { t.AddNote(v) })
		return nil
	})
	var labels, remove []string
	f.addWords(&labels, "add-label")
	f.Func("remove-label", "", func(v string) (err error) {
		remove, err = withWords(remove, v)
		if slices.Contains(remove, task.LabelHuman) { // an agent must not decide for the person
			return fmt.Errorf("a task with the label %s waits for a person, who takes it away", task.LabelHuman)
		}
		return err
	})
	x.set = append(x.set, func(t *task.Task) {
		for _, l := range labels {
			if !slices.Contains(t.Labels, l) {
				t.Labels = append(t.Labels, l)
			}
		}
		t.Labels = slices.DeleteFunc(t.Labels, func(l string) bool { return slices.Contains(remove, l) })
	})
}

// addText adds a flag for a text.
func (x *fields) addText(f *flags, of func(*task.Task) *string, names ...string) {
	for _, name := range names {
		f.Func(name, "", func(v string) error {
			x.set = append(x.set, func(t *task.Task) { *of(t) = v })
			return nil
		})
	}
}

// setFields sets the given fields of a task.
func (x *fields) setFields(t *task.Task) {
	for _, set := range x.set {
		set(t)
	}
}

// choice are the flags that choose tasks.
type choice struct {
	task.Filter
	most int
}

func (c *choice) addFlags(f *flags, most int) {
	for _, name := range []string{"n", "limit"} {
		f.IntVar(&c.most, name, most, "")
	}
	for _, name := range []string{"label", "l"} {
		f.addWords(&c.Labels, name)
	}
	for _, name := range []string{"type", "t"} {
		f.addWords(&c.Types, name)
	}
	for _, name := range []string{"priority", "p"} {
		f.Func(name, "", func(v string) error {
			n := 0
			err := priority(&n, v)
			c.Priorities = append(c.Priorities, n)
			return err
		})
	}
	for _, name := range []string{"assignee", "a"} {
		f.StringVar(&c.Assignee, name, "", "")
	}
	f.BoolVar(&c.Unassigned, "unassigned", false, "")
	f.StringVar(&c.Parent, "parent", "", "")
}

// limitList limits a list to the wanted number.
func (c *choice) limitList(list []*task.Task) []*task.Task {
	if c.most > 0 {
		list = list[:min(len(list), c.most)]
	}
	return list
}
