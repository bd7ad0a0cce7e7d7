package engine

import (
	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// shelfOf returns the checkpoints of a sandbox.
func shelfOf(d store.Sandbox) checkpoint.Shelf { return checkpoint.Shelf{Dir: d.Checkpoints()} }

// Whole refuses a sandbox whose files are half of a checkpoint: see [checkpoint.Shelf.CheckWhole].
func (e *Engine) Whole(sb *spec.Sandbox) error {
	return shelfOf(e.Store.Sandbox(sb.ID)).CheckWhole(sb.Name)
}
