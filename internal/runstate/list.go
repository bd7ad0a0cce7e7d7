package runstate

import (
	"cmp"
	"slices"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/run"
)

// Unread is told of a run that cannot be read.
type Unread func(id string, err error)

// List returns views of all readable runs of a kind, or of any kind if it is empty, the newest first. An
// unreadable run does not hide the others.
func List[V any](e *engine.Engine, kind string, view func(*engine.Engine, *run.Run) (V, error), unread Unread) ([]V, error) {
	list, err := run.ListOf(e.Store.Runs(), kind)
	if err != nil {
		return nil, err
	}
	views := []V{}
	for _, r := range list {
		if v, err := view(e, r); err != nil {
			unread(r.ID, err)
		} else {
			views = append(views, v)
		}
	}
	return views, nil
}

// SummarizeAll returns the views of all readable runs, in the order in which people should look at them. It
// leaves out flows of which nothing is left but the record.
func SummarizeAll(e *engine.Engine, unread Unread) ([]Summary, error) {
	views, err := List(e, "", Summarize, unread)
	if err != nil {
		return nil, err
	}
	views = slices.DeleteFunc(views, func(v Summary) bool { return v.Reason == flow.ReasonRemoved && !v.LeftBehind })
	slices.SortStableFunc(views, func(a, b Summary) int { return cmp.Compare(a.Rank(), b.Rank()) })
	return views, nil
}
