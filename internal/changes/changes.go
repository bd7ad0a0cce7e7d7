// Package changes brings the changes of a sandbox to the workspaces of the host, and no other: changes
// to a reviewed workspace are applied or discarded, and commits to a clone are fetched. It also
// prepares the layers and clones in which the changes are made. Packages review and clone are the
// mechanisms; this package knows the sandboxes and their locks.
package changes

import (
	"fmt"

	"github.com/bothy-dev/bothy/internal/checkpoint"
	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

// Workspaces are the workspaces of sandboxes whose changes reach the host only if a person wants
// that.
type Workspaces struct {
	Store *store.Store
	// Progress receives the current step of a long operation. May be nil.
	Progress func(string)
}

// checkWhole refuses a sandbox whose files are half of a checkpoint.
func (ws *Workspaces) checkWhole(sb *spec.Sandbox) error {
	return checkpoint.Shelf{Dir: ws.Store.Sandbox(sb.ID).Checkpoints()}.CheckWhole(sb.Name)
}

// report tells the user the current step.
func (ws *Workspaces) report(format string, args ...any) {
	if ws.Progress != nil {
		ws.Progress(fmt.Sprintf(format, args...))
	}
}
