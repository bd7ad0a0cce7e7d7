package engine

import (
	"github.com/bothy-dev/bothy/internal/changes"
	"github.com/bothy-dev/bothy/spec"
)

// Changes returns the workspaces whose changes reach the host only if a person wants that.
func (e *Engine) Changes() *changes.Workspaces {
	return &changes.Workspaces{Store: e.Store, Progress: e.Progress}
}

// eraseFiles removes the files of a sandbox that has ended. First it removes the files that a killed
// apply left in its workspaces: their record goes with the sandbox. The caller holds the sandbox's
// lock.
func (e *Engine) eraseFiles(sb *spec.Sandbox) error {
	if err := e.Changes().Tidy(sb); err != nil {
		e.Say("files of an interrupted apply, named .bothy-apply-..., may be left in the workspace: %v", err)
	}
	return e.Store.Remove(sb.ID)
}
