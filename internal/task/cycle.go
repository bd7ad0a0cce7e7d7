package task

import (
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// waits gives the tasks that must be out of the way, as far as the rules go,
// before a task can begin: whom it depends on by a blocking kind, and of whom it
// waits for the children, these too.
//
// A part waits with the whole: that is an edge as any other. An epic that is
// blocked by its own part is blocked for ever, and so is the part.
func (g *Graph) waits(t *Task) (ids []string) {
	for i := range t.Dependencies {
		d := &t.Dependencies[i]
		if !d.Kind.Blocking() || g.tasks[d.DependsOnID] == nil {
			continue
		}
		ids = append(ids, d.DependsOnID)
		if d.Kind == WaitsFor {
			for _, c := range g.Children(d.DependsOnID) {
				ids = append(ids, c.ID)
			}
		}
	}
	return ids
}

// Cycles gives the circles of tasks that wait for each other, one for each knot of
// them, each as the IDs on the way round. Tasks in one can never begin.
func (g *Graph) Cycles() (cycles [][]string) {
	k := knots{g: g, number: map[string]int{}, low: map[string]int{}, on: map[string]bool{}}
	for _, t := range g.All() {
		if k.number[t.ID] == 0 {
			k.visit(t)
		}
	}
	for _, knot := range k.found {
		cycles = append(cycles, g.round(knot))
	}
	slices.SortFunc(cycles, slices.Compare)
	return cycles
}

// knots finds the strongly connected components, as Tarjan does.
type knots struct {
	g           *Graph
	number, low map[string]int
	on          map[string]bool
	stack       []string
	found       [][]string
}

func (k *knots) visit(t *Task) {
	n := len(k.number) + 1
	k.number[t.ID], k.low[t.ID], k.on[t.ID] = n, n, true
	k.stack = append(k.stack, t.ID)
	itself := false
	for _, id := range k.g.waits(t) {
		itself = itself || id == t.ID
		if k.number[id] == 0 {
			k.visit(k.g.tasks[id])
			k.low[t.ID] = min(k.low[t.ID], k.low[id])
		} else if k.on[id] {
			k.low[t.ID] = min(k.low[t.ID], k.number[id])
		}
	}
	if k.low[t.ID] != n {
		return
	}
	i := slices.Index(k.stack, t.ID)
	knot := slices.Clone(k.stack[i:])
	k.stack = k.stack[:i]
	for _, id := range knot {
		k.on[id] = false
	}
	if len(knot) > 1 || itself {
		k.found = append(k.found, knot)
	}
}

// round gives a shortest way round in a knot, from its first ID.
func (g *Graph) round(knot []string) []string {
	slices.SortFunc(knot, compareIDs)
	start := knot[0]
	in := map[string]bool{}
	for _, id := range knot {
		in[id] = true
	}
	before := map[string]string{}
	for queue := []string{start}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		for _, id := range g.waits(g.tasks[at]) {
			if id == start {
				way := []string{}
				for ; at != start; at = before[at] {
					way = append(way, at)
				}
				slices.Reverse(way)
				return append([]string{start}, way...)
			}
			if _, seen := before[id]; in[id] && !seen {
				before[id] = at
				queue = append(queue, id)
			}
		}
	}
	return knot
}

// acyclic refuses a graph with a circle in it.
func (g *Graph) acyclic() error {
	cycles := g.Cycles()
	if len(cycles) == 0 {
		return nil
	}
	return spec.Errorf(spec.ErrConflict, "tasks would wait for each other: %s", ShowCycle(cycles[0])).
		WithHint("take one of these dependencies out, or make it one that does not block, e.g. related")
}

// ShowCycle writes a circle as people read it.
func ShowCycle(ids []string) string { return strings.Join(append(slices.Clone(ids), ids[0]), " → ") }
