package runstate

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// Handles the sandboxes of a completed flow that removes them. They are put away, and recreated if a
// person resumes the flow to redo skipped or changed steps.

// RemoveEnded removes the sandboxes of an ended flow if its plan says so. If the flow can still be
// resumed, it puts them away instead.
func RemoveEnded(ctx context.Context, e *engine.Engine, p *flowplan.Plan, s *flow.State) error {
	switch {
	case !p.Remove:
		return nil
	case s.Status == run.Completed:
		return putAway(ctx, e, p)
	case s.Final():
		return removeAll(ctx, e, p)
	}
	return nil
}

// putAway puts the sandboxes of a flow away. Nothing runs in them.
func putAway(ctx context.Context, e *engine.Engine, p *flowplan.Plan) error {
	return eachPassing(ctx, p, func(ctx context.Context, id string) error {
		sb, err := e.Find(id)
		if err == nil {
			err = e.PutAway(ctx, sb)
		}
		if errors.Is(err, spec.ErrNotFound) { // resuming reports it
			return nil
		}
		return err
	})
}

// eachPassing calls do for each sandbox of a flow that holds no changes waiting for a person. It has
// a time limit, and ignores that ctx is canceled.
func eachPassing(ctx context.Context, p *flowplan.Plan, do func(ctx context.Context, id string) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	var errs []error
	for _, id := range passing(p) {
		errs = append(errs, do(ctx, id))
	}
	return errors.Join(errs...)
}

// passing returns the IDs of a flow's sandboxes, except those that hold changes waiting for a
// person.
func passing(p *flowplan.Plan) (ids []string) {
	copies := p.Copies()
	for _, room := range slices.Sorted(maps.Keys(p.Sandboxes)) {
		if !slices.Contains(copies, room) {
			ids = append(ids, p.Sandboxes[room])
		}
	}
	return ids
}

// FindSandboxes returns the sandboxes to resume a flow in, or none if nothing is left to do.
func (l *Flow) FindSandboxes(ctx context.Context, events []run.Event) (map[string]*spec.Sandbox, error) {
	stands, err := flow.Stands(&l.Plan, l.Run.Dir(), events)
	if err != nil || stands {
		return nil, err
	}
	if err := l.remakeSandboxes(ctx); err != nil {
		return nil, err
	}
	return l.Workplaces()
}

// remakeSandboxes recreates the sandboxes that are put away, if the others exist.
func (l *Flow) remakeSandboxes(ctx context.Context) error {
	var away []string
	for _, id := range passing(&l.Plan) {
		if l.Engine.Away().Has(id) {
			away = append(away, id)
		} else if _, err := l.Engine.Find(id); err != nil {
			return nil // the caller reports the missing one
		}
	}
	for _, id := range away {
		if _, err := l.Engine.Anew(ctx, id); err != nil {
			return err
		}
	}
	return nil
}
