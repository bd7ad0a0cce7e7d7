package engine

import (
	"errors"
	"io/fs"
	"os"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// MarkFork returns a function for [Engine.AddCopy] that marks a new sandbox as a fork in which programs are to
// resume from memory. It does not start otherwise, because it would have its files alone. [Engine.FinishFork]
// removes the mark. If this
// process ends before, [Engine.Sweep] removes the fork, unless it was started.
func (e *Engine) MarkFork(sb *spec.Sandbox) func(store.Sandbox) error {
	return e.reserved.lockOnCreation(sb.ID, store.Sandbox.MakerLock)
}

// FinishFork marks a fork as complete. It does nothing for a fork that was removed.
func (e *Engine) FinishFork(sb *spec.Sandbox) error {
	defer e.reserved.release(sb.ID)
	err := os.Remove(e.Store.Sandbox(sb.ID).MakerLock())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// checkForked refuses a fork in which programs are to resume and have not yet.
func checkForked(d store.Sandbox, sb *spec.Sandbox) error {
	if sb.Remove { // it has a creator, but is not a fork
		return nil
	}
	awaited := d.Awaited() // before the rest: a creator removes the mark before it releases the lock
	if d.MayHaveStarted() || !d.HasMaker() {
		return nil
	}
	if awaited {
		return spec.Errorf(spec.ErrConflict, "sandbox %s is being forked: its programs do not go on yet", sb.Name).WithHint("try again in a moment")
	}
	return spec.Errorf(spec.ErrConflict, "sandbox %s is half a fork: the command that made it was ended before programs could go on in it", sb.Name).
		WithHint("remove it: bothy rm -f %s; and fork once more", sb.Name)
}
