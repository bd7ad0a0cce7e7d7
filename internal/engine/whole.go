package engine

import (
	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/spec"
)

// shelf returns the checkpoints of a sandbox.
func (e *Engine) shelf(sb *spec.Sandbox) checkpoint.Shelf {
	return checkpoint.Shelf{Dir: e.Store.Sandbox(sb.ID).Checkpoints()}
}

// Whole refuses a sandbox whose files are half of a checkpoint: see [checkpoint.Shelf.CheckWhole].
func (e *Engine) Whole(sb *spec.Sandbox) error { return e.shelf(sb).CheckWhole(sb.Name) }

// finishFiles has the owner of [Engine.BeforeStart] finish a restore of a sandbox that was
// interrupted. The caller holds the sandbox's lock.
func (e *Engine) finishFiles(sb *spec.Sandbox) error {
	if e.BeforeStart == nil {
		return e.Whole(sb)
	}
	return e.BeforeStart(sb)
}
