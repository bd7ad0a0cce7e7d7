package task

import (
	"context"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

// Link is a dependency to be made: the other task, and the kind.
type Link struct {
	Kind     Kind
	On       string
	AnyChild bool // for WaitsFor: the first child is enough
}

// Add puts a new task into the graph. t has its texts and other fields. Without an ID it gets one, below
// its parent's if it has a parent. Fields of a claim or of the end are ignored.
func (g *Graph) Add(t Task, parent string, links []Link, by string, now time.Time) (*Task, error) {
	list, err := g.AddAll([]Task{t}, parent, links, by, now)
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

// AddAll is Add for several tasks with the same parent and links.
func (g *Graph) AddAll(list []Task, parent string, links []Link, by string, now time.Time) (added []*Task, err error) {
	for _, t := range list {
		n, err := g.addOne(t, parent, links, by, now)
		if err != nil {
			return nil, err
		}
		added = append(added, n)
	}
	if err := g.acyclic(); err != nil { // another task may have named one before it existed
		return nil, err
	}
	return added, nil
}

func (g *Graph) addOne(t Task, parent string, links []Link, by string, now time.Time) (*Task, error) {
	if parent != "" {
		links = append(slices.Clone(links), Link{Kind: ParentChild, On: parent})
	}
	n := &t
	n.LeaseExpiresAt, n.HeartbeatAt, n.StartedAt, n.ClosedAt, n.CloseReason, n.ClosedBySession = nil, nil, nil, nil, "", ""
	n.CreatedAt, n.CreatedBy, n.UpdatedAt = now, by, now
	if n.Status == "" {
		n.Status = Open
	}
	if n.Type == "" {
		n.Type = "task"
	}
	if !slices.Contains([]Status{Open, Blocked, Deferred, Pinned}, n.Status) {
		return nil, spec.Errorf(spec.ErrUsage, "a new task cannot be %s", n.Status).WithHint("bothy task import takes tasks over as they are")
	}
	for _, d := range n.Dependencies {
		links = append(links, Link{d.Kind, d.DependsOnID, d.anyChild()})
	}
	n.Dependencies = nil
	if err := g.nameTask(n, parent); err != nil {
		return nil, err
	}
	if err := usageError(n.checkWhole()); err != nil {
		return nil, err
	}
	g.putChanged(n)
	for _, l := range links {
		if err := g.addLink(n, l, by, now); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// nameTask gives a new task its ID, or checks the one that it has.
func (g *Graph) nameTask(t *Task, parent string) error {
	if t.ID != "" {
		if g.tasks[t.ID] != nil {
			return spec.Errorf(spec.ErrConflict, "there is a task %s", t.ID).WithHint("leave the ID out, and it is given a free one")
		}
		return nil
	}
	if parent == "" {
		t.ID = g.randomID()
		return nil
	}
	p, err := g.Find(parent)
	if err == nil {
		t.ID = g.childID(p.ID)
	}
	return err
}

// Link makes one task depend on another. An existing dependency stays.
func (g *Graph) Link(id string, l Link, by string, now time.Time) (*Task, error) {
	t, err := g.Find(id)
	if err != nil {
		return nil, err
	}
	n := t.editCopy(now)
	if err := g.addLink(n, l, by, now); err != nil {
		return nil, err
	}
	if len(n.Dependencies) == len(t.Dependencies) {
		return t, nil
	}
	g.putChanged(n)
	return n, g.acyclic()
}

func (g *Graph) addLink(t *Task, l Link, by string, now time.Time) error {
	other, err := g.Find(l.On)
	if err != nil {
		return err
	}
	same := func(d Dependency) bool { return d.DependsOnID == other.ID && d.Kind == l.Kind }
	switch {
	case slices.ContainsFunc(t.Dependencies, same):
		return nil
	case other.ID == t.ID:
		return spec.Errorf(spec.ErrConflict, "%s cannot depend on itself", t.ID)
	case l.Kind == ParentChild && len(t.Parents()) > 0:
		return spec.Errorf(spec.ErrConflict, "%s is a part of %s", t.ID, t.Parents()[0]).WithHint("bothy task update %s --parent %s moves it", t.ID, other.ID)
	case l.Kind.Blocking() && l.Kind != ParentChild && g.Below(t, other.ID):
		return spec.Errorf(spec.ErrConflict, "%s is a part of %s, which ends after it", t.ID, other.ID).WithHint("a task cannot wait for a task that it is a part of")
	case l.AnyChild && l.Kind != WaitsFor:
		return spec.Errorf(spec.ErrUsage, "only a dependency of the kind %s can be content with the first child", WaitsFor)
	}
	d := Dependency{TaskID: t.ID, DependsOnID: other.ID, Kind: l.Kind, CreatedAt: now, CreatedBy: by}
	if l.AnyChild {
		d.Metadata = []byte(`"{\"gate\":\"any-children\"}"`) // a string, as in Beads
	}
	if err := usageError(d.checkEdge(t.ID)); err != nil {
		return err
	}
	t.Dependencies = append(t.Dependencies, d)
	g.index = nil
	return nil
}

// Unlink removes dependencies of a task on the other: those of one kind, or all.
func (g *Graph) Unlink(id, on string, kind Kind, now time.Time) (*Task, error) {
	t, err := g.Find(id)
	if err != nil {
		return nil, err
	}
	if other, err := g.Find(on); err == nil {
		on = other.ID
	}
	n := t.editCopy(now)
	n.Dependencies = slices.DeleteFunc(n.Dependencies, func(d Dependency) bool { return d.DependsOnID == on && (kind == "" || d.Kind == kind) })
	if len(n.Dependencies) == len(t.Dependencies) {
		return nil, spec.Errorf(spec.ErrNotFound, "%s does not depend on %s like that", t.ID, on).WithHint("bothy task show %s lists its dependencies", t.ID)
	}
	g.putChanged(n)
	return n, nil
}

// Update changes a task by a function that sets its fields. It does not close or reopen a task,
// and does not change its ID or its dependencies. The holder and the status of a claimed task
// change only by force, unless the caller holds it.
func (g *Graph) Update(id, who string, force bool, now time.Time, change func(*Task) error) (*Task, error) {
	t, err := g.Find(id)
	if err != nil {
		return nil, err
	}
	n := t.editCopy(now)
	if err := change(n); err != nil {
		return nil, err
	}
	n.ID, n.Dependencies = t.ID, t.Dependencies
	if err := usageError(n.checkWhole()); err != nil {
		return nil, err
	}
	if n.Status != t.Status && (n.isDone() || t.isDone()) {
		return nil, spec.Errorf(spec.ErrUsage, "%s cannot go from %s to %s like that", t.ID, t.Status, n.Status).WithHint("bothy task close and bothy task reopen do it")
	}
	if n.Status != t.Status || n.Assignee != t.Assignee {
		if err := t.mustNotBeHeld(who, force, now); err != nil {
			return nil, err
		}
		n.settleClaim(t, now)
	}
	g.putChanged(n)
	return n, nil
}

// settleClaim makes the fields of a claim fit a new status or assignee.
func (t *Task) settleClaim(before *Task, now time.Time) {
	if t.Status == InProgress && t.StartedAt == nil {
		t.StartedAt = &now
	}
	if before.LeaseExpiresAt == nil {
		return
	}
	t.LeaseExpiresAt, t.HeartbeatAt = nil, nil
	if t.Status != InProgress && t.Assignee == before.Assignee {
		t.Assignee = "" // it was the claim's assignee
	}
}

// Move makes a task a part of another, and no longer of its old parents. An empty parent makes it
// a part of none.
func (g *Graph) Move(id, parent, by string, now time.Time) (*Task, error) {
	t, err := g.Find(id)
	if err != nil {
		return nil, err
	}
	n := t.editCopy(now)
	n.Dependencies = slices.DeleteFunc(n.Dependencies, func(d Dependency) bool { return d.Kind == ParentChild })
	g.putChanged(n)
	if parent != "" {
		if err := g.addLink(n, Link{Kind: ParentChild, On: parent}, by, now); err != nil {
			return nil, err
		}
	}
	return n, g.acyclic()
}

// End is how a task is closed.
type End struct {
	Reason  string // words like "failed" in it start tasks that depend on it by ConditionalBlocks
	Session string // of the agent that closes it
	Force   bool   // although another holds it, it is blocked, or it has open parts
}

// Close ends a task, and returns the tasks that can begin because of that. A closed task stays as
// it is.
func (g *Graph) Close(id, who string, end End, now time.Time) (t *Task, begin []*Task, err error) {
	list, begin, err := g.CloseAll(context.Background(), []string{id}, who, end, now)
	if err != nil {
		return nil, nil, err
	}
	return list[0], begin, nil
}

// CloseAll is Close for several tasks. It returns the tasks that can begin in the end. It stops between
// two tasks when ctx is done, because other callers wait.
func (g *Graph) CloseAll(ctx context.Context, ids []string, who string, end End, now time.Time) (closed, begin []*Task, err error) {
	before := map[string]bool{}
	for _, t := range g.Ready(&Filter{}, ByPriority, now) {
		before[t.ID] = true
	}
	for _, id := range ids {
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		t, err := g.Finish(id, who, end, now)
		if err != nil {
			return nil, nil, err
		}
		closed = append(closed, t)
	}
	for _, t := range g.Ready(&Filter{}, ByPriority, now) {
		if !before[t.ID] {
			begin = append(begin, t)
		}
	}
	return closed, begin, nil
}

// Finish is Close without the list of tasks that can begin.
func (g *Graph) Finish(id, who string, end End, now time.Time) (*Task, error) {
	t, err := g.Find(id)
	if err != nil || t.isDone() {
		return t, err
	}
	if err := t.mustNotBeHeld(who, end.Force, now); err != nil {
		return nil, err
	}
	if err := g.mustBeFinished(t, end.Force); err != nil {
		return nil, err
	}
	n := t.editCopy(now)
	n.Status, n.ClosedAt, n.CloseReason, n.ClosedBySession = Closed, &now, end.Reason, end.Session
	n.LeaseExpiresAt, n.HeartbeatAt = nil, nil
	g.putChanged(n)
	return n, nil
}

// mustBeFinished refuses to end a task that is blocked, or has open parts.
func (g *Graph) mustBeFinished(t *Task, force bool) error {
	if force {
		return nil
	}
	if list := g.Blockers(t); len(list) > 0 {
		return spec.Errorf(spec.ErrConflict, "%s is blocked by %s", t.ID, list[0].ID).WithHint("close that first, or use --force")
	}
	if c := g.openPart(t); c != nil {
		return spec.Errorf(spec.ErrConflict, "%s, a part of %s, is not closed", c.ID, t.ID).WithHint("close that first, or use --force")
	}
	return nil
}

// openPart returns an open part of a task, or nil.
func (g *Graph) openPart(t *Task) *Task {
	for _, c := range g.Children(t.ID) {
		if !c.isOver() {
			return c
		}
	}
	return nil
}

// Reopen makes a closed task free for every caller. An unclosed one stays as it is.
func (g *Graph) Reopen(id string, now time.Time) (*Task, error) {
	t, err := g.Find(id)
	if err != nil || t.Status != Closed {
		return t, err
	}
	n := t.editCopy(now)
	n.Status, n.Assignee = Open, ""
	n.StartedAt, n.ClosedAt, n.CloseReason, n.ClosedBySession = nil, nil, "", ""
	g.putChanged(n)
	return n, nil
}
