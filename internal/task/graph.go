package task

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// Graph is the tasks of one project. It is not safe for concurrent use.
type Graph struct {
	tasks  map[string]*Task
	before map[string]*Task // the earlier versions of new or changed tasks; nil for a new one
	index  *index           // nil: must be rebuilt
	steps  int              // followed dependencies: the cost
}

// NewGraph makes an empty graph.
func NewGraph() *Graph {
	return &Graph{tasks: map[string]*Task{}, before: map[string]*Task{}}
}

// Load puts a task into the graph unchanged, and replaces the one with its ID. A store builds a graph
// with it.
func (g *Graph) Load(t *Task) {
	old := g.tasks[t.ID]
	g.tasks[t.ID] = t
	g.change(old, t)
}

// putChanged is Load for a task that is new or was changed.
func (g *Graph) putChanged(t *Task) {
	t.changed = true
	g.accept(t)
}

// accept is putChanged for a task that comes with its document.
func (g *Graph) accept(t *Task) {
	if _, ok := g.before[t.ID]; !ok {
		g.before[t.ID] = g.tasks[t.ID]
	}
	g.Load(t)
}

// Changed returns the tasks that are new or changed since the graph was loaded, by ID.
func (g *Graph) Changed() []*Task {
	var list []*Task
	for id := range g.before {
		list = append(list, g.tasks[id])
	}
	sortByID(list)
	return list
}

// Len returns the number of tasks.
func (g *Graph) Len() int { return len(g.tasks) }

// All returns every task, by ID.
func (g *Graph) All() []*Task {
	list := make([]*Task, 0, len(g.tasks))
	for _, t := range g.tasks {
		list = append(list, t)
	}
	sortByID(list)
	return list
}

// Find returns the task with an ID. The prefix may be left out if the rest is unique: "a1b2" for
// "bd-a1b2".
func (g *Graph) Find(ref string) (*Task, error) {
	if t, ok := g.tasks[ref]; ok {
		return t, nil
	}
	var found []*Task
	for id, t := range g.tasks {
		if ref != "" && strings.HasSuffix(id, "-"+ref) {
			found = append(found, t)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, spec.Errorf(spec.ErrNotFound, "no task %q", ref).WithHint("list tasks: bothy task ls --all")
	}
	sortByID(found)
	return nil, spec.Errorf(spec.ErrNotFound, "%q is the end of %s and of %s", ref, found[0].ID, found[1].ID).WithHint("write the whole ID")
}

// editCopy returns a copy of a task that can be changed and then put back.
func (t *Task) editCopy(now time.Time) *Task {
	c := *t
	c.Labels = slices.Clone(t.Labels)
	c.Dependencies = slices.Clone(t.Dependencies)
	c.UpdatedAt = now
	return &c
}

// Children returns the parts of a task, in order.
func (g *Graph) Children(id string) []*Task {
	list := make([]*Task, 0, len(g.childIDs(id)))
	for _, child := range g.childIDs(id) {
		list = append(list, g.tasks[child])
	}
	return list
}

func (g *Graph) childIDs(id string) []string { return g.builtIndex().children[id] }

// Below reports whether a task is a part of the other, directly or not.
func (g *Graph) Below(t *Task, ancestor string) bool {
	found := false
	g.ancestors(t, func(p *Task, _ int) bool {
		found = found || p.ID == ancestor
		return !found
	})
	return found
}

// ancestors calls f for all tasks that a task is a part of, once each, the nearest first, with their
// level: 1 for a parent. It does not go above a task for which f returns false.
func (g *Graph) ancestors(t *Task, f func(p *Task, level int) bool) {
	seen := map[string]bool{t.ID: true}
	level := 0
	for next := t.Parents(); len(next) > 0; {
		level++
		var above []string
		for _, id := range next {
			p := g.tasks[id]
			if p == nil || seen[id] {
				continue
			}
			seen[id] = true
			if f(p, level) {
				above = append(above, p.Parents()...)
			}
		}
		next = above
	}
}

// Dependents returns the tasks that depend on another, with the dependency.
func (g *Graph) Dependents(id string) (list []Dependency) {
	for _, t := range g.All() {
		for _, d := range t.Dependencies {
			if d.DependsOnID == id {
				d.TaskID = t.ID
				list = append(list, d)
			}
		}
	}
	return list
}

func sortByID(list []*Task) {
	slices.SortFunc(list, func(a, b *Task) int { return compareIDs(a.ID, b.ID) })
}

// compareIDs orders IDs by their parts, numbers as numbers and before words:
// bd-a.2 comes before bd-a.10.
func compareIDs(a, b string) int {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	return cmp.Or(slices.CompareFunc(x, y, compareParts), strings.Compare(a, b))
}

func compareParts(a, b string) int {
	n, err1 := strconv.Atoi(a)
	m, err2 := strconv.Atoi(b)
	switch {
	case err1 == nil && err2 == nil:
		return cmp.Compare(n, m)
	case err1 == nil:
		return -1
	case err2 == nil:
		return 1
	}
	return strings.Compare(a, b)
}

func containsFold(text, word string) bool {
	return strings.Contains(strings.ToLower(text), word)
}
