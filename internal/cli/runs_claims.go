package cli

import (
	"errors"
	"maps"
	"slices"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/run"
)

// claimsOf maps the IDs of sandboxes to the runs that need them: those that a process runs, or that
// can be resumed. The error is about unreadable runs.
func claimsOf(e *engine.Engine) (map[string]string, error) {
	list, err := run.ListOf(e.Store.Runs(), "")
	if err != nil {
		return nil, err
	}
	by := map[string]string{}
	var errs []error
	for _, r := range list {
		ids, err := needed(e, r)
		errs = append(errs, err)
		for _, id := range ids {
			by[id] = r.ID
		}
	}
	return by, errors.Join(errs...)
}

// needed returns the sandboxes of a run, unless it is over for good.
func needed(e *engine.Engine, r *run.Run) ([]string, error) {
	if r.Kind == run.Flows {
		l, err := readFlow(e, r)
		if err != nil || !l.hosted && l.state.Over() && !l.state.Raisable() {
			return nil, err
		}
		return slices.Collect(maps.Values(l.plan.Sandboxes)), nil
	}
	l, err := readLoop(e, r)
	if err != nil || !l.hosted && l.state.Final() && l.state.Status != run.Limited {
		return nil, err
	}
	return l.sandboxes(), nil
}
