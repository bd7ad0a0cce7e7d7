package cli

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// This file has the sandboxes of a flow that has come to its end but for what was skipped: they
// are removed, if those of the flow are, and made anew if a person goes on with it.

// recordsName is the file of a run that has their records, as long as they are removed.
const recordsName = "sandboxes.json"

type records struct {
	Version   int                      `json:"version"`
	Sandboxes map[string]engine.Record `json:"sandboxes"` // by their rooms
}

// putAway removes the sandboxes of a flow, of which nothing runs, when it is written down what it
// takes to make them anew.
func putAway(ctx context.Context, e *engine.Engine, r *run.Run, p *flow.Plan) error {
	all := records{run.Version, map[string]engine.Record{}}
	copies := p.Copies() // which stay
	for room, id := range p.Sandboxes {
		if slices.Contains(copies, room) {
			continue
		}
		sb, err := e.Find(id)
		if errors.Is(err, spec.ErrNotFound) {
			continue // who goes on is told
		}
		if err == nil {
			all.Sandboxes[room], err = e.Record(sb)
		}
		if err != nil {
			return err
		}
	}
	if err := store.WriteJSON(filepath.Join(r.Dir(), recordsName), all); err != nil {
		return err
	}
	return removeAll(ctx, e, p)
}

// anew makes those anew that were put away. Whoever is killed at that has it done again from the
// beginning, for one may be there and lack what it is lent.
func (l *flowing) anew(ctx context.Context) error {
	path := filepath.Join(l.run.Dir(), recordsName)
	var all records
	err := store.ReadJSON(path, &all)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && all.Version > run.Version {
		err = spec.Errorf(spec.ErrConflict, "the run %s was made by a newer bothy", l.run.ID)
	}
	if err == nil {
		err = removeAll(ctx, l.engine, &l.plan)
	}
	for _, room := range slices.Sorted(maps.Keys(all.Sandboxes)) {
		if err == nil {
			_, err = l.engine.Anew(ctx, all.Sandboxes[room])
		}
	}
	if err == nil {
		err = os.Remove(path)
	}
	if err == nil {
		return store.SyncDir(l.run.Dir())
	}
	return errors.Join(err, removeAll(ctx, l.engine, &l.plan))
}
