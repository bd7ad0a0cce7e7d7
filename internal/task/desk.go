package task

import (
	"context"
	"time"
)

// Store keeps the graph of one project.
type Store interface {
	// View gives the graph as it is. Changing it changes nothing in the store.
	View(ctx context.Context) (*Graph, error)

	// Change calls f with the graph and keeps what f changes: all of it or, if f
	// fails, nothing. Nobody else, in any process, changes the graph meanwhile, and
	// what was changed is on the disk when Change returns. f is called once.
	Change(ctx context.Context, f func(*Graph) error) error
}

// Desk is where workers take tasks from and report on them. Workers may be many
// processes: a task is given to one at a time. Each has a name of its own, by
// which it holds what it takes; two of one name are taken for one.
//
// A worker renews its claim well before the lease runs out. If it dies the task
// goes to another; if it was only slow, what it does then with the task is refused
// with ErrConflict.
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

// Ready gives the tasks that can begin now, in order.
func (d Desk) Ready(ctx context.Context, f Filter, o Order) ([]*Task, error) {
	g, err := d.Store.View(ctx)
	if err != nil {
		return nil, err
	}
	return g.Ready(&f, o, d.now()), nil
}

// Claim takes the first ready task that is chosen. If there is none the error is
// ErrNotFound.
func (d Desk) Claim(ctx context.Context, who string, lease time.Duration, f Filter, o Order) (*Task, error) {
	return d.change(ctx, func(g *Graph) (*Task, error) { return g.ClaimNext(&f, o, who, lease, d.now()) })
}

// ClaimTask takes one task. If somebody else holds it, or it cannot begin, the
// error is ErrConflict.
func (d Desk) ClaimTask(ctx context.Context, id, who string, lease time.Duration) (*Task, error) {
	return d.change(ctx, func(g *Graph) (*Task, error) { return g.Claim(id, who, lease, d.now()) })
}

// Renew makes a claim last from now on as long as the lease. If the task is no
// longer theirs the error is ErrConflict: they stop.
func (d Desk) Renew(ctx context.Context, id, who string, lease time.Duration) (*Task, error) {
	return d.change(ctx, func(g *Graph) (*Task, error) { return g.Renew(id, who, lease, d.now()) })
}

// Release gives a task back.
func (d Desk) Release(ctx context.Context, id, who string) (*Task, error) {
	return d.change(ctx, func(g *Graph) (*Task, error) { return g.Release(id, who, false, d.now()) })
}

// Close ends a task that nobody else holds, and gives what can begin because of
// it. To close it again is no error: after a crash a worker may.
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
