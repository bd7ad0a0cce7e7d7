package task

import (
	"cmp"
	"slices"
	"time"
)

// maxDepth is how many levels up to look for an ancestor that is blocked or deferred.
const maxDepth = 50

// Reason is why a task is not ready.
type Reason string

// Reasons. If there are several, the first in this order is reported.
const (
	ReasonNone     Reason = ""
	ReasonClosed   Reason = "closed"
	ReasonClaimed  Reason = "claimed" // until State.Until, unless that is zero
	ReasonBlocked  Reason = "blocked" // by State.Blockers
	ReasonDeferred Reason = "deferred"
	ReasonStatus   Reason = "status" // set to blocked or pinned, or one of the user's own
	ReasonKept     Reason = "kept"   // pinned, ephemeral, a template, or of a type that is not work
	ReasonHuman    Reason = "human"  // its label says that a person has to decide
)

// State says whether a task can begin, and why not.
type State struct {
	Ready    bool
	Reason   Reason
	Until    time.Time // for ReasonClaimed and ReasonDeferred, if known
	Blockers []Blocker
}

// Blocker is a task that another waits for.
type Blocker struct {
	ID    string `json:"id"`
	Kind  Kind   `json:"type"`
	Via   string `json:"via,omitempty"`   // the ancestor that waits, if it is not the task itself
	Never bool   `json:"never,omitempty"` // the other did not fail, so this task will never run
}

// LabelHuman marks a task that waits for a person.
const LabelHuman = "human"

// notWork are types of tasks that no worker takes. The second half of them are things and messages, from
// newer versions of Beads.
var notWork = []string{"gate", "molecule", "merge-request", "message", "agent", "role", "rig"}

// State returns whether a task can begin now, and why not.
func (g *Graph) State(t *Task, now time.Time) State {
	s := State{}
	switch s.Reason = g.Reason(t, now); s.Reason {
	case ReasonClaimed:
		_, s.Until, _ = t.Claimed(now)
	case ReasonBlocked:
		s.Blockers = g.Blockers(t)
	case ReasonDeferred:
		if until := g.tasks[g.standing(now).later[t.ID]].DeferUntil; until != nil && until.After(now) {
			s.Until = *until
		}
	}
	s.Ready = s.Reason == ReasonNone
	return s
}

// Reason returns why a task cannot begin now, or ReasonNone. Calls for many tasks at the same time
// share one look at the graph.
func (g *Graph) Reason(t *Task, now time.Time) Reason {
	if t.isDone() {
		return ReasonClosed
	}
	if _, _, ok := t.Claimed(now); ok {
		return ReasonClaimed
	}
	s := g.standing(now)
	switch {
	case s.blocked[t.ID] != "":
		return ReasonBlocked
	case s.later[t.ID] != "":
		return ReasonDeferred
	case t.Status != Open && !t.expired(now):
		return ReasonStatus
	case t.Pinned || t.Ephemeral || t.IsTemplate || slices.Contains(notWork, t.Type):
		return ReasonKept
	case slices.Contains(t.Labels, LabelHuman):
		return ReasonHuman
	}
	return ReasonNone
}

// Blockers returns the blockers of a task and of its ancestors.
func (g *Graph) Blockers(t *Task) []Blocker {
	list := slices.Clone(g.ownBlockers(t))
	g.ancestors(t, func(p *Task, level int) bool {
		g.steps++
		if p.isOver() || level > maxDepth {
			return false
		}
		for _, b := range g.ownBlockers(p) {
			b.Via = p.ID
			list = append(list, b)
		}
		return true
	})
	return list
}

func (g *Graph) findBlockers(t *Task) (list []Blocker) {
	seen := map[Blocker]bool{}
	for i := range t.Dependencies {
		g.steps++
		d := &t.Dependencies[i]
		other := g.tasks[d.DependsOnID]
		if other == nil { // of another project, or deleted: it blocks no task
			continue
		}
		b := Blocker{ID: other.ID, Kind: d.Kind}
		waits := false
		switch d.Kind {
		case Blocks:
			waits = !other.isOver()
		case ConditionalBlocks:
			b.Never = other.isDone() && !other.Failed() // also of a deleted task
			waits = b.Never || !other.isOver()
		case WaitsFor:
			waits = gateShut(g.gateOf(other.ID), d.anyChild())
		}
		if waits && !seen[b] {
			seen[b] = true
			list = append(list, b)
		}
	}
	return list
}

// gateShut reports whether a task that waits for children must still wait. Without children it does not
// wait.
func gateShut(s gate, first bool) bool { return s.open && !(first && s.ended) }

// isDeferred reports whether a task itself is deferred.
func (t *Task) isDeferred(now time.Time) bool {
	return t.Status == Deferred || t.DeferUntil != nil && t.DeferUntil.After(now)
}

// Filter chooses tasks. Its zero value chooses all. A task matches one of several values, but must have
// all of several labels.
type Filter struct {
	Statuses   []Status
	Priorities []int
	Types      []string
	Labels     []string
	Assignee   string
	Unassigned bool
	Parent     string   // parts of this task, and their parts
	Except     []string // not these
}

// Matches reports whether the filter chooses a task.
func (f *Filter) Matches(g *Graph, t *Task) bool {
	return (len(f.Statuses) == 0 || slices.Contains(f.Statuses, t.Status)) &&
		(len(f.Priorities) == 0 || slices.Contains(f.Priorities, t.Priority)) &&
		(len(f.Types) == 0 || slices.Contains(f.Types, t.Type)) &&
		(f.Assignee == "" || t.Assignee == f.Assignee) &&
		(!f.Unassigned || t.Assignee == "") &&
		!slices.ContainsFunc(f.Labels, func(l string) bool { return !slices.Contains(t.Labels, l) }) &&
		!slices.Contains(f.Except, t.ID) &&
		(f.Parent == "" || g.Below(t, f.Parent))
}

// Order is the order in which ready tasks are returned.
type Order string

// Orders of Beads.
const (
	ByPriority Order = "priority" // the most urgent first, of these the oldest
	ByAge      Order = "oldest"
	Hybrid     Order = "hybrid" // tasks of the last two days by priority, then the others, the oldest first
)

// Orders returns all orders.
func Orders() []string { return []string{string(ByPriority), string(Hybrid), string(ByAge)} }

// recent is the age up to which Hybrid sorts by priority.
const recent = 48 * time.Hour

// Ready returns the chosen tasks that can begin now, in order. Tasks that wait for a person are only
// included if the filter names that label.
func (g *Graph) Ready(f *Filter, o Order, now time.Time) []*Task {
	var list []*Task
	human := slices.Contains(f.Labels, LabelHuman)
	for _, t := range g.tasks {
		if !f.Matches(g, t) {
			continue
		}
		if r := g.Reason(t, now); r == ReasonNone || human && r == ReasonHuman {
			list = append(list, t)
		}
	}
	SortTasks(list, o, now)
	return list
}

// SortTasks sorts tasks.
func SortTasks(list []*Task, o Order, now time.Time) {
	since := now.Add(-recent)
	key := func(t *Task) (group, priority int) {
		switch {
		case o == ByAge:
			return 0, 0
		case o == Hybrid && t.CreatedAt.Before(since):
			return 1, 0
		}
		return 0, t.Priority
	}
	slices.SortFunc(list, func(a, b *Task) int {
		g1, p1 := key(a)
		g2, p2 := key(b)
		return cmp.Or(cmp.Compare(g1, g2), cmp.Compare(p1, p2), a.CreatedAt.Compare(b.CreatedAt), compareIDs(a.ID, b.ID))
	})
}
