package task

import "context"

// Store keeps the graph of one project. Workers may be many processes: a task is given to one at a time.
// Each has a unique name by which it holds its tasks; two with the same name count as one.
//
// A worker renews its claim well before the lease expires. If it dies the task goes to another. If
// it was only slow, its later changes to the task are refused with ErrConflict.
type Store interface {
	// View returns the current graph. Changes to it do not change the store.
	View(ctx context.Context) (*Graph, error)

	// Change calls f with the graph and keeps all changes of f, or none if f fails. No other
	// process or goroutine changes the graph meanwhile, and the changes are on the disk when
	// Change returns. f is called once.
	Change(ctx context.Context, f func(*Graph) error) error
}
