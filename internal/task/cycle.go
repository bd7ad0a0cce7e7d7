package task

import (
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// childrenOf before an ID means all children of that task. Many tasks may wait for as many
// children: an edge for each pair would be too many to follow.
const childrenOf = "\x00"

// waitsFor returns the tasks that must be done, as far as the rules go, before a task can begin: its
// blocking dependencies and, if it waits for children, those children.
//
// A part waits for its whole: that edge is like any other. An epic that is blocked by its own part is
// blocked for ever, and so is the part.
func (k *knots) waitsFor(id string) (ids []string) {
	if whole, ok := strings.CutPrefix(id, childrenOf); ok {
		return k.g.childIDs(whole)
	}
	for _, e := range k.g.edgesOf(k.g.tasks[id]) {
		if e.from == id {
			ids = append(ids, e.to)
		}
	}
	return ids
}

// edge says that one task waits for another, see waitsFor.
type edge struct{ from, to string }

// edgesOf returns the edges that a task makes.
func (g *Graph) edgesOf(t *Task) (list []edge) {
	for i := range t.Dependencies {
		d := &t.Dependencies[i]
		if !d.Kind.Blocking() || g.tasks[d.DependsOnID] == nil {
			continue
		}
		list = append(list, edge{t.ID, d.DependsOnID})
		switch d.Kind {
		case ParentChild:
			list = append(list, edge{childrenOf + d.DependsOnID, t.ID})
		case WaitsFor:
			list = append(list, edge{t.ID, childrenOf + d.DependsOnID})
		}
	}
	return list
}

// Cycles returns one circle of tasks that wait for each other for each knot, as the IDs on the way
// round. Tasks in a circle can never begin.
func (g *Graph) Cycles() (cycles [][]string) {
	k := findKnots(g)
	for _, knot := range k.found {
		knot = slices.DeleteFunc(knot, isChildren)
		start := slices.MinFunc(knot, compareIDs)
		cycles = append(cycles, slices.DeleteFunc(k.pathTo(start, start), isChildren))
	}
	slices.SortFunc(cycles, slices.Compare)
	return cycles
}

func findKnots(g *Graph) *knots {
	k := newKnots(g)
	for _, t := range g.All() {
		k.visitFrom(t.ID)
	}
	return k
}

// knots finds strongly connected components by Tarjan's algorithm.
type knots struct {
	g           *Graph
	number, low map[string]int
	on          map[string]bool
	stack       []string
	knot        map[string]int // its component, by the number of the component's first task
	found       [][]string     // the components that contain a circle
	steps       int            // followed edges: the cost
}

func newKnots(g *Graph) *knots {
	return &knots{g: g, number: map[string]int{}, low: map[string]int{}, on: map[string]bool{}, knot: map[string]int{}}
}

// visitFrom visits all tasks that can be reached from a task.
func (k *knots) visitFrom(from string) {
	if k.number[from] == 0 {
		k.visitTask(from)
	}
}

func (k *knots) visitTask(at string) {
	n, top := len(k.number)+1, len(k.stack)
	k.number[at], k.low[at], k.on[at] = n, n, true
	k.stack = append(k.stack, at)
	itself := false
	for _, id := range k.waitsFor(at) {
		k.steps++
		itself = itself || id == at
		if k.number[id] == 0 {
			k.visitTask(id)
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
		k.on[id], k.knot[id] = false, n
	}
	if len(knot) > 1 || itself {
		k.found = append(k.found, knot)
	}
}

// pathTo returns a short path from one task to another of the same knot, without the other. From a task to
// itself the path is a circle.
func (k *knots) pathTo(from, to string) []string {
	before := map[string]string{}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		for _, id := range k.waitsFor(at) {
			if id == to {
				way := []string{at}
				for ; at != from; at = before[at] {
					way = append(way, before[at])
				}
				slices.Reverse(way)
				return way
			}
			if _, seen := before[id]; !seen && id != from && k.knot[id] == k.knot[from] {
				before[id] = at
				queue = append(queue, id)
			}
		}
	}
	return []string{from}
}

func isChildren(id string) bool { return strings.HasPrefix(id, childrenOf) }

// acyclic refuses changes that close a circle. It accepts an old circle, which must not keep callers
// from changing other tasks, or from breaking it up.
func (g *Graph) acyclic() error {
	k := newKnots(g)
	for _, e := range g.newEdges() {
		if k.visitFrom(e.from); k.knot[e.from] != k.knot[e.to] {
			continue
		}
		way := []string{e.from}
		if e.from != e.to {
			way = append(way, k.pathTo(e.to, e.from)...)
		}
		return spec.Errorf(spec.ErrConflict, "tasks would wait for each other: %s", ShowCycle(slices.DeleteFunc(way, isChildren))).
			WithHint("take one of these dependencies out, or make it one that does not block, e.g. related")
	}
	return nil
}

// newEdges returns the new edges of each new or changed task. Other tasks may have waited for a
// new task, or been parts of it, before it existed. All such ways go through the tasks that it
// waits for, or through its children.
func (g *Graph) newEdges() (list []edge) {
	for _, t := range g.Changed() {
		was := map[edge]bool{}
		if old := g.before[t.ID]; old != nil {
			for _, e := range g.edgesOf(old) {
				was[e] = true
			}
		} else {
			for _, child := range g.childIDs(t.ID) {
				list = append(list, edge{childrenOf + t.ID, child})
			}
		}
		for _, e := range g.edgesOf(t) {
			if !was[e] {
				list = append(list, e)
			}
		}
	}
	return list
}

// ShowCycle formats a circle for people.
func ShowCycle(ids []string) string { return strings.Join(append(slices.Clone(ids), ids[0]), " → ") }
