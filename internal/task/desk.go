package task

import (
	"context"
	"time"
)

// Store keeps the graph of one project.
type Store interface {
	// View returns the current graph. Changes to it do not change the store.
	View(ctx context.Context) (*Graph, error)

	// Change calls f with the graph and keeps all changes of f, or none if f fails. No other
	// process or goroutine changes the graph meanwhile, and the changes are on the disk when
	// Change returns. f is called once.
	Change(ctx context.Context, f func(*Graph) error) error
}

// Desk is where workers take tasks from and report on them. Workers may be many processes: a task
// is given to one at a time. Each has a name of its own, by which it holds its tasks; two of one
// name count as one.
//
// A worker renews its claim well before the lease expires. If it dies the task goes to another. If
// it was only slow, its later changes to the task are refused with ErrConflict.
type Desk struct {
	Store Store
	Now   func() time.Time // time.Now if nil
}

func (d Desk) now() time.Time {
	if d.Now != nil {
		return d.Now()
	}
	return time.Now().UTC()
}

// Ready returns the tasks that can begin now, in order.
func (d Desk) Ready(ctx context.Context, f Filter, o Order) ([]*Task, error) {
	g, err := d.Store.View(ctx)
	if err != nil {
		return nil, err
	}
	return g.Ready(&f, o, d.now()), nil
}

// Claim takes the first ready task of the filter. Without one the error is ErrNotFound.
func (d Desk) Claim(ctx context.Context, who string, lease time.Duration, f Filter, o Order) (*Task, error) {
	return d.change(ctx, func(g *Graph) (*Task, error) { return g.ClaimNext(&f, o, who, lease, d.now()) })
}

// ClaimTask takes one task. If another holds it, or it cannot begin, the error is ErrConflict.
func (d Desk) ClaimTask(ctx context.Context, id, who string, lease time.Duration) (*Task, error) {
	return d.change(ctx, func(g *Graph) (*Task, error) { return g.Claim(id, who, lease, d.now()) })
}

// Renew makes a claim last for the lease from now on. If the worker no longer holds the task the
// error is ErrConflict: it stops.
func (d Desk) Renew(ctx context.Context, id, who string, lease time.Duration) (*Task, error) {
	return d.change(ctx, func(g *Graph) (*Task, error) { return g.Renew(id, who, lease, d.now()) })
}

// Release gives a task back.
func (d Desk) Release(ctx context.Context, id, who string) (*Task, error) {
	return d.change(ctx, func(g *Graph) (*Task, error) { return g.Release(id, who, false, d.now()) })
}

// Close ends a task that no other worker holds, and returns the tasks that can begin because of
// it. Closing it again is not an error: after a crash a worker may.
func (d Desk) Close(ctx context.Context, id, who string, end End) (begin []*Task, err error) {
	err = d.Store.Change(ctx, func(g *Graph) (err error) {
		_, begin, err = g.Close(id, who, end, d.now())
		return err
	})
	return begin, err
}

// Discover adds a task that was found while another was worked on.
func (d Desk) Discover(ctx context.Context, from, who string, found Task) (*Task, error) {
	return d.change(ctx, func(g *Graph) (*Task, error) {
		return g.Add(found, "", []Link{{Kind: DiscoveredFrom, On: from}}, who, d.now())
	})
}

func (d Desk) change(ctx context.Context, f func(*Graph) (*Task, error)) (t *Task, err error) {
	err = d.Store.Change(ctx, func(g *Graph) (err error) {
		t, err = f(g)
		return err
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}
