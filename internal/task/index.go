package task

import (
	"bytes"
	"slices"
	"time"
)

// index caches facts about the tasks of a graph. When a task changes, the facts that do not depend
// on it stay.
type index struct {
	children map[string][]string  // by parent, in order
	waiting  map[string][]string  // tasks that depend on a task by a blocking kind, without its parts
	own      map[string][]Blocker // a task's own blockers, for tasks that were asked about
	gates    map[string]gate      // by parent, likewise
	standing *standing            // nil: not asked yet
}

// gate is the state of a task's children.
type gate struct{ open, ended bool } // whether at least one is open, or has ended

// standing has the tasks that are held up at some time.
type standing struct {
	now            time.Time
	blocked, later map[string]string // the task that holds it up: itself, or an ancestor
}

// builtIndex returns the index, and builds it if necessary.
func (g *Graph) builtIndex() *index {
	if g.index != nil {
		return g.index
	}
	x := &index{children: map[string][]string{}, waiting: map[string][]string{}, own: map[string][]Blocker{}, gates: map[string]gate{}}
	add := func(to map[string][]string, key, id string) {
		if list := to[key]; len(list) == 0 || list[len(list)-1] != id { // a task may name another twice
			to[key] = append(list, id)
		}
	}
	for id, t := range g.tasks {
		for i := range t.Dependencies {
			g.steps++
			switch d := &t.Dependencies[i]; {
			case d.Kind == ParentChild:
				add(x.children, d.DependsOnID, id)
			case d.Kind.Blocking():
				add(x.waiting, d.DependsOnID, id)
			}
		}
	}
	for _, list := range x.children {
		slices.SortFunc(list, compareIDs)
	}
	g.index = x
	return x
}

// change tells the index that a task has changed.
func (g *Graph) change(old, now *Task) {
	x := g.index
	if x == nil {
		return
	}
	if old == nil || old == now || !slices.EqualFunc(old.Dependencies, now.Dependencies, sameEdge) {
		g.index = nil
		return
	}
	x.standing = nil
	x.forget(now.ID)
	for _, p := range now.Parents() {
		delete(x.gates, p)
		x.forget(p)
	}
}

// forget drops the cached blockers of tasks that wait for a task, or for its children.
func (x *index) forget(id string) {
	for _, w := range x.waiting[id] {
		delete(x.own, w)
	}
}

func sameEdge(a, b Dependency) bool {
	return a.DependsOnID == b.DependsOnID && a.Kind == b.Kind && bytes.Equal(a.Metadata, b.Metadata)
}

// gateOf returns the state of a task's children.
func (g *Graph) gateOf(id string) gate {
	x := g.builtIndex()
	s, ok := x.gates[id]
	if ok {
		return s
	}
	for _, child := range x.children[id] {
		g.steps++
		c := g.tasks[child]
		s.open, s.ended = s.open || !c.isOver(), s.ended || c.isDone()
	}
	x.gates[id] = s
	return s
}

// ownBlockers returns a task's own blockers, without those of its ancestors.
func (g *Graph) ownBlockers(t *Task) []Blocker {
	x := g.builtIndex()
	list, ok := x.own[t.ID]
	if !ok {
		list = g.findBlockers(t)
		x.own[t.ID] = list
	}
	return list
}

func (g *Graph) standing(now time.Time) *standing {
	x := g.builtIndex()
	if x.standing != nil && x.standing.now.Equal(now) {
		return x.standing
	}
	var blocked, later []string
	for id, t := range g.tasks {
		if len(g.ownBlockers(t)) > 0 {
			blocked = append(blocked, id)
		}
		if t.isDeferred(now) {
			later = append(later, id)
		}
	}
	x.standing = &standing{
		now:     now,
		blocked: g.partsBelow(blocked, func(t *Task) bool { return !t.isOver() }),
		later:   g.partsBelow(later, func(*Task) bool { return true }),
	}
	return x.standing
}

// partsBelow returns tasks and all their parts, as far down as maxDepth, each with the nearest of these
// tasks. It does not go below a task for which through returns false.
func (g *Graph) partsBelow(tops []string, through func(*Task) bool) map[string]string {
	top := map[string]string{}
	slices.Sort(tops) // so that of equally near ones always the same counts
	for _, id := range tops {
		top[id] = id
	}
	for level := 0; len(tops) > 0 && level < maxDepth; level++ {
		var next []string
		for _, id := range tops {
			if !through(g.tasks[id]) {
				continue
			}
			for _, c := range g.childIDs(id) {
				g.steps++
				if top[c] == "" {
					top[c] = top[id]
					next = append(next, c)
				}
			}
		}
		tops = next
	}
	return top
}
