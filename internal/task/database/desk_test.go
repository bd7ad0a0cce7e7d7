package database

import (
	"context"
	"time"

	"github.com/bothy-dev/bothy/internal/task"
)

// desk gives tasks to the workers of these tests.
type desk struct {
	Store task.Store
	Now   func() time.Time // time.Now if nil
}

func (d desk) now() time.Time {
	if d.Now != nil {
		return d.Now()
	}
	return time.Now().UTC()
}

// Claim takes the first ready task of the filter. Without one the error is ErrNotFound.
func (d desk) Claim(ctx context.Context, who string, lease time.Duration, f task.Filter, o task.Order) (*task.Task, error) {
	return d.change(ctx, func(g *task.Graph) (*task.Task, error) { return g.ClaimNext(&f, o, who, lease, d.now()) })
}

// Renew extends a claim to one lease from now. If the worker no longer holds the task, the error is
// ErrConflict: the worker stops.
func (d desk) Renew(ctx context.Context, id, who string, lease time.Duration) (*task.Task, error) {
	return d.change(ctx, func(g *task.Graph) (*task.Task, error) { return g.Renew(id, who, lease, d.now()) })
}

// Close ends a task that no other worker holds, and returns the tasks that can begin because of it.
// Closing it again is not an error: a worker may do that after a crash.
func (d desk) Close(ctx context.Context, id, who string, end task.End) (begin []*task.Task, err error) {
	err = d.Store.Change(ctx, func(g *task.Graph) (err error) {
		_, begin, err = g.Close(id, who, end, d.now())
		return err
	})
	return begin, err
}

// Discover adds a task that was found while another was worked on.
func (d desk) Discover(ctx context.Context, from, who string, found task.Task) (*task.Task, error) {
	return d.change(ctx, func(g *task.Graph) (*task.Task, error) {
		return g.Add(found, "", []task.Link{{Kind: task.DiscoveredFrom, On: from}}, who, d.now())
	})
}

func (d desk) change(ctx context.Context, f func(*task.Graph) (*task.Task, error)) (t *task.Task, err error) {
	err = d.Store.Change(ctx, func(g *task.Graph) (err error) {
		t, err = f(g)
		return err
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}
