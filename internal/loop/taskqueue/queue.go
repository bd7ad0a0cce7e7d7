// Package taskqueue is the source of a loop's tasks: it claims ready tasks of a project for a run, and says
// which others wait for what.
package taskqueue

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/spec"
)

// Queue is the source of a loop's tasks. The claims belong to the run, so the process that carries
// the run on after a crash has them, too.
type Queue struct {
	Store  task.Store
	Who    string   // the name that holds the tasks
	Labels []string // a task must have all of these
}

// Lease is how long a claim on a task lasts. The process that carries the loop on renews it.
// Without a renewal others may take the task.
const Lease = 10 * time.Minute

// Holder returns the name under which a run holds tasks.
func Holder(run string) string { return "run:" + run }

// Take claims a task: the one with this ID, or else the next ready one that is not in except. A task
// that the run already holds comes first: a crash came before the claim was recorded. Without a task the
// error is ErrNotFound. The error is ErrConflict if another holder has the wanted task by now, or if it
// need not be done any more. A task that the run has closed still belongs to the run.
func (d *Queue) Take(ctx context.Context, id string, except []string) (t *task.Task, err error) {
	err = d.Store.Change(ctx, func(g *task.Graph) error {
		t, err = d.claimTask(g, id, except)
		return err
	})
	return t, err
}

func (d *Queue) claimTask(g *task.Graph, id string, except []string) (*task.Task, error) {
	now := time.Now().UTC()
	if id == "" {
		for _, t := range g.All() {
			if t.Status == task.InProgress && t.Assignee == d.Who && !slices.Contains(except, t.ID) {
				return g.Claim(t.ID, d.Who, Lease, now)
			}
		}
		return g.ClaimNext(&task.Filter{Labels: d.Labels, Except: except}, task.ByPriority, d.Who, Lease, now)
	}
	t, err := g.Find(id)
	switch {
	case errors.Is(err, spec.ErrNotFound):
		return nil, spec.Errorf(spec.ErrConflict, "%s is not there any more", id)
	case err == nil && t.Status == task.Closed && t.Assignee == d.Who:
		return t, nil
	case err != nil:
		return nil, err
	}
	return g.Claim(id, d.Who, Lease, now)
}

// Ahead returns the unfinished tasks that are not in except: those that the run could take now, in order, and
// those that it cannot take, or not yet.
func (d *Queue) Ahead(ctx context.Context, except []string) (ready, open []Open, err error) {
	g, err := d.Store.View(ctx)
	if err != nil {
		return nil, nil, err
	}
	wanted := task.Filter{Labels: d.Labels, Except: except}
	now := time.Now().UTC()
	var can []*task.Task
	for _, t := range g.All() {
		at := g.State(t, now)
		if !wanted.Matches(g, t) || at.Reason == task.ReasonClosed || at.Reason == task.ReasonKept || neverNeeded(at) {
			continue
		}
		free, whole := g.Free(t, d.Who, now)
		switch {
		case !at.Ready:
			open = append(open, openOf(t, at))
		case !free: // it could begin, but another holder has it
			at.Reason = task.ReasonClaimed
			open = append(open, openOf(t, at))
		case whole: // otherwise its parts must be done first
			can = append(can, t)
		}
	}
	task.SortTasks(can, task.ByPriority, now)
	for _, t := range can {
		ready = append(ready, openOf(t, task.State{Ready: true}))
	}
	slices.SortStableFunc(open, func(a, b Open) int { return cmp.Compare(len(a.By), len(b.By)) }) // first those that others wait for
	return ready, open, nil
}

// Renew extends the claim. If another holder has the task by now, the error is ErrConflict.
func (d *Queue) Renew(ctx context.Context, id string) error {
	return d.Store.Change(ctx, func(g *task.Graph) error {
		_, err := g.Renew(id, d.Who, Lease, time.Now().UTC())
		return err
	})
}

// Close closes a completed task. It may be repeated. If the task cannot be closed, the error is
// ErrConflict.
func (d *Queue) Close(ctx context.Context, id, reason, session string) error {
	return d.Store.Change(ctx, func(g *task.Graph) error {
		_, err := g.Finish(id, d.Who, task.End{Reason: reason, Session: session}, time.Now().UTC())
		return err
	})
}

// PutBack frees a task for others, with a note for them. It may be repeated.
func (d *Queue) PutBack(ctx context.Context, id, note string) error {
	return d.Store.Change(ctx, func(g *task.Graph) error {
		_, err := g.PutBack(id, d.Who, note, time.Now().UTC())
		return err
	})
}

// Reopen reopens tasks that the run has closed.
func (d *Queue) Reopen(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	return d.Store.Change(ctx, func(g *task.Graph) error {
		for _, id := range ids {
			t, err := g.Find(id)
			if errors.Is(err, spec.ErrNotFound) || err == nil && (t.Status != task.Closed || t.Assignee != d.Who) {
				continue // it has changed since the run left it
			}
			if err == nil {
				_, err = g.Reopen(id, time.Now().UTC())
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
