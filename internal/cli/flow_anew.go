package cli

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/spec"
)

// This file has the sandboxes of a flow that has come to its end but for what was skipped: they
// are put away, if those of the flow are removed, and made anew if a person goes on with it.

// putAway puts the sandboxes of a flow away, of which nothing runs.
func putAway(ctx context.Context, e *engine.Engine, p *flow.Plan) error {
	for _, id := range passing(p) {
		sb, err := e.Find(id)
		if err == nil {
			err = e.PutAway(ctx, sb)
		}
		if err != nil && !errors.Is(err, spec.ErrNotFound) { // who goes on is told
			return err
		}
	}
	return nil
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
