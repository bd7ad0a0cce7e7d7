package runs

import (
	"github.com/bothy-dev/bothy/internal/cli/checkpoints"
	"github.com/bothy-dev/bothy/internal/cli/console"
	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// warnBeside prints the running loops whose agents write to the same host directory. It does not
// stop the user: the loops may work on different files.
func (a *app) warnBeside(e *engine.Engine, own string, sb *spec.Sandbox) {
	if len(checkpoints.Shared(sb)) == 0 {
		return
	}
	list, err := run.ListOf(e.Store.Runs(), run.Loops)
	if err != nil {
		return // the loop's own run exists, so listing runs reports the error
	}
	for _, r := range list {
		var p loopplan.Plan
		if r.ID == own || !r.Hosted() {
			continue
		}
		if _, err := r.Plan(&p); err != nil || p.Directory != sb.Workspaces[0].Source {
			continue
		}
		if other, err := e.Find(p.Sandbox); err == nil && len(checkpoints.Shared(other)) > 0 {
			a.Note("the loop %s works in %s just now, too: each changes the files under the other, and is judged with what that did; --workspace review keeps them apart", r.ID, console.Printable(p.Directory))
		}
	}
}
