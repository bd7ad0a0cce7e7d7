package snapshot

import (
	"fmt"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/clone"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Snapshots makes and uses the snapshots of an engine's sandboxes.
type Snapshots struct{ engine *engine.Engine }

// New returns the snapshots of an engine's sandboxes.
func New(e *engine.Engine) *Snapshots { return &Snapshots{e} }

// Attach makes the engine finish interrupted restores before it starts a sandbox, and start the
// attendant that makes the automatic checkpoints of a running sandbox.
func (s *Snapshots) Attach() { s.engine.BeforeStart, s.engine.Running = s.prepareStart, s.attend }

// prepareStart removes the remains of a killed command from a sandbox's checkpoints, and finishes an
// interrupted restore. The caller holds the sandbox's lock.
func (s *Snapshots) prepareStart(sb *spec.Sandbox) error {
	if err := s.Checkpoints(sb).Tidy(); err != nil {
		return err
	}
	return s.finishRestore(sb)
}

// Checkpoints returns the checkpoints of a sandbox.
func (s *Snapshots) Checkpoints(sb *spec.Sandbox) checkpoint.Shelf {
	return checkpoint.Shelf{Dir: s.directory(sb).Checkpoints()}
}

// directory returns the directory of a sandbox.
func (s *Snapshots) directory(sb *spec.Sandbox) store.Sandbox { return s.engine.Store.Sandbox(sb.ID) }

// clones returns the clones of a sandbox.
func (s *Snapshots) clones(sb *spec.Sandbox) []clone.Clone {
	return clone.Of(sb, s.directory(sb).Clone)
}

// say tells the user the current step.
func (s *Snapshots) say(format string, args ...any) {
	if s.engine.Progress != nil {
		s.engine.Progress(fmt.Sprintf(format, args...))
	}
}
