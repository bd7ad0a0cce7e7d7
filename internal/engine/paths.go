package engine

import (
	"github.com/bothy-dev/bothy/internal/hostpath"
)

// Paths returns the guard that opens the paths that a person names, and finds the host's programs.
// It knows the directories that sandboxes write to now.
func (e *Engine) Paths() (*hostpath.Guard, error) { return hostpath.Load(e.Store) }
