package engine

import (
	"errors"
	"io/fs"
	"os"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Forking marks a new sandbox as a fork in which programs are to resume from memory. It does not
// start otherwise, because it would have its files alone. [Engine.Forked] removes the mark. If this
// process ends before, [Engine.Sweep] removes the fork, unless it was started.
func (e *Engine) Forking(sb *spec.Sandbox) func(store.Sandbox) error {
	return e.makers.beginMaking(sb.ID, store.Sandbox.MakerLock)
}

// Forked marks a fork as complete. It does nothing for a fork that was removed.
func (e *Engine) Forked(sb *spec.Sandbox) error {
	defer e.makers.endMaking(sb.ID)
	err := os.Remove(e.Store.Sandbox(sb.ID).MakerLock())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// checkForked refuses a fork in which programs are to resume and have not yet.
func checkForked(d store.Sandbox, sb *spec.Sandbox) error {
	if sb.Remove { // it has a maker, but is not a fork
		return nil
	}
	awaited := d.Awaited() // before the rest: a maker removes the mark before it releases the lock
	if d.MayHaveStarted() || !d.HasMaker() {
		return nil
	}
	if awaited {
		return spec.Errorf(spec.ErrConflict, "sandbox %s is being forked: its programs do not go on yet", sb.Name).WithHint("try again in a moment")
	}
	return spec.Errorf(spec.ErrConflict, "sandbox %s is half a fork: the command that made it was ended before programs could go on in it", sb.Name).
		WithHint("remove it: bothy rm -f %s; and fork once more", sb.Name)
}
