package cli

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// This file has the sandboxes of a flow that removes them and is completed: they are put away, and
// made anew if a person goes on with what was skipped, or with what somebody has changed since.

// clearFlow removes the sandboxes of a flow that stands so, if it is to, and has come to its end.
// Those of one that can be gone on with are put away.
func clearFlow(ctx context.Context, e *engine.Engine, p *flow.Plan, s *flow.State) error {
	switch {
	case !p.Remove:
		return nil
	case s.Status == flow.Completed:
		return putAway(ctx, e, p)
	case s.Status.Final():
		return removeAll(ctx, e, p)
	}
	return nil
}

// putAway puts the sandboxes of a flow away, of which nothing runs.
func putAway(ctx context.Context, e *engine.Engine, p *flow.Plan) error {
	return eachPassing(ctx, p, func(ctx context.Context, id string) error {
		sb, err := e.Find(id)
		if err == nil {
			err = e.PutAway(ctx, sb)
		}
		if errors.Is(err, spec.ErrNotFound) { // who goes on is told
			return nil
		}
		return err
	})
}

// eachPassing does something with each of the sandboxes of a flow in which nothing waits for a
// person, within a time, also for who is told to end.
func eachPassing(ctx context.Context, p *flow.Plan, do func(ctx context.Context, id string) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	var errs []error
	for _, id := range passing(p) {
		errs = append(errs, do(ctx, id))
	}
	return console.Join(errs)
}

// passing are the sandboxes of a flow, by their IDs, but for those in which something waits for a
// person.
func passing(p *flow.Plan) (ids []string) {
	copies := p.Copies()
	for _, room := range slices.Sorted(maps.Keys(p.Sandboxes)) {
		if !slices.Contains(copies, room) {
			ids = append(ids, p.Sandboxes[room])
		}
	}
	return ids
}

// places are the sandboxes in which a flow is gone on with; none if nothing is left to be done.
func (l *flowing) places(ctx context.Context, events []run.Event) (map[string]*spec.Sandbox, error) {
	stands, err := flow.Stands(&l.plan, l.run.Dir(), events)
	if err != nil || stands {
		return nil, err
	}
	if err := l.anew(ctx); err != nil {
		return nil, err
	}
	return l.workplaces()
}

// anew makes those anew that are put away, if the others are there.
func (l *flowing) anew(ctx context.Context) error {
	var away []string
	for _, id := range passing(&l.plan) {
		if l.engine.IsAway(id) {
			away = append(away, id)
		} else if _, err := l.engine.Find(id); err != nil {
			return nil // who looks for it says what is missing
		}
	}
	for _, id := range away {
		if _, err := l.engine.Anew(ctx, id); err != nil {
			return err
		}
	}
	return nil
}
