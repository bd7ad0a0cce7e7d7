package engine

import (
	"errors"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// shelf returns the checkpoints of a sandbox.
func (e *Engine) shelf(sb *spec.Sandbox) checkpoint.Shelf {
	return checkpoint.Shelf{Dir: e.Store.Sandbox(sb.ID).Checkpoints()}
}

// Whole refuses a sandbox whose files are half of a checkpoint: a restore is at work, or was
// interrupted. None of the files can be trusted, and a missing file least of all.
func (e *Engine) Whole(sb *spec.Sandbox) error {
	shelf := e.shelf(sb)
	half := shelf.Whole()
	if half == nil {
		return nil
	}
	lock, err := shelf.TryLock()
	if errors.Is(err, store.ErrLocked) {
		return spec.Errorf(spec.ErrConflict, "a checkpoint of sandbox %s is being restored", sb.Name).WithHint("try again in a moment")
	}
	if err == nil {
		half = shelf.Whole() // no process restores it any more
		lock.Unlock()
	}
	if half == nil {
		return nil
	}
	return &spec.Error{Op: "use the files of " + sb.Name, Err: half}
}

// finishFiles has the owner of [Engine.BeforeStart] finish a restore of a sandbox that was
// interrupted. The caller holds the sandbox's lock.
func (e *Engine) finishFiles(sb *spec.Sandbox) error {
	if e.BeforeStart == nil {
		return e.Whole(sb)
	}
	return e.BeforeStart(sb)
}
