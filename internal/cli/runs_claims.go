package cli

import (
	"errors"

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
		l, err := readRun(e, r)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, id := range l.needs() {
			by[id] = r.ID
		}
	}
	return by, errors.Join(errs...)
}
