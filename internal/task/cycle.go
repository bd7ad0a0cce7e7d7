package task

import (
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// childrenOf before an ID stands for all children of that task. Many tasks may wait for
// as many children: each of them for each would be more edges than anybody can follow.
const childrenOf = "\x00"

// waits gives the tasks that must be out of the way, as far as the rules go,
// before a task can begin: whom it depends on by a blocking kind, and of whom it
// waits for the children, these too.
//
// A part waits with the whole: that is an edge as any other. An epic that is
// blocked by its own part is blocked for ever, and so is the part.
func (g *Graph) waits(id string) (ids []string) {
	if whole, ok := strings.CutPrefix(id, childrenOf); ok {
		return g.childIDs(whole)
	}
	t := g.tasks[id]
	for i := range t.Dependencies {
		d := &t.Dependencies[i]
		if !d.Kind.Blocking() || g.tasks[d.DependsOnID] == nil {
			continue
		}
		ids = append(ids, d.DependsOnID)
		if d.Kind == WaitsFor {
			ids = append(ids, childrenOf+d.DependsOnID)
		}
	}
	return ids
}

// Cycles gives the circles of tasks that wait for each other, one for each knot of
// them, each as the IDs on the way round. Tasks in one can never begin.
func (g *Graph) Cycles() (cycles [][]string) {
	for _, knot := range g.knots().found {
		cycles = append(cycles, g.round(knot))
	}
	slices.SortFunc(cycles, slices.Compare)
	return cycles
}

func (g *Graph) knots() *knots {
	k := &knots{g: g, number: map[string]int{}, low: map[string]int{}, on: map[string]bool{}}
	for _, t := range g.All() {
		if k.number[t.ID] == 0 {
			k.visit(t.ID)
		}
	}
	return k
}

// knots finds the strongly connected components, as Tarjan does.
type knots struct {
	g           *Graph
	number, low map[string]int
	on          map[string]bool
	stack       []string
	found       [][]string
	steps       int // how many edges were followed: what it costs
}

func (k *knots) visit(at string) {
	n, top := len(k.number)+1, len(k.stack)
	k.number[at], k.low[at], k.on[at] = n, n, true
	k.stack = append(k.stack, at)
	itself := false
	for _, id := range k.g.waits(at) {
		k.steps++
		itself = itself || id == at
		if k.number[id] == 0 {
			k.visit(id)
			k.low[at] = min(k.low[at], k.low[id])
		} else if k.on[id] {
			k.low[at] = min(k.low[at], k.number[id])
		}
	}
	if k.low[at] != n {
		return
	}
	knot := slices.Clone(k.stack[top:])
	k.stack = k.stack[:top]
	for _, id := range knot {
		k.on[id] = false
	}
	if len(knot) > 1 || itself {
		k.found = append(k.found, knot)
	}
}

// round gives a short way round in a knot, from its first ID.
func (g *Graph) round(knot []string) []string {
	in := map[string]bool{}
	for _, id := range knot {
		in[id] = true
	}
	knot = slices.DeleteFunc(knot, isChildren)
	slices.SortFunc(knot, compareIDs)
	start := knot[0]
	before := map[string]string{}
	for queue := []string{start}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		for _, id := range g.waits(at) {
			if id == start {
				way := []string{}
				for ; at != start; at = before[at] {
					way = append(way, at)
				}
				slices.Reverse(way)
				return append([]string{start}, slices.DeleteFunc(way, isChildren)...)
			}
			if _, seen := before[id]; in[id] && !seen {
				before[id] = at
				queue = append(queue, id)
			}
		}
	}
	return knot
}

func isChildren(id string) bool { return strings.HasPrefix(id, childrenOf) }

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
