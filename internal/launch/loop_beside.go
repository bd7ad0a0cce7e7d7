package launch

import (
	"github.com/bothy-dev/bothy/internal/hostpath"
	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/term"
	"github.com/bothy-dev/bothy/spec"
)

// warnBeside names the running loops whose agents write to the same host directory. It does not
// stop the user: the loops may work on different files.
func (l *Launcher) warnBeside(own string, sb *spec.Sandbox) {
	if len(hostpath.Live(sb)) == 0 {
		return
	}
	list, err := run.ListOf(l.Engine.Store.Runs(), run.Loops)
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
		if other, err := l.Engine.Find(p.Sandbox); err == nil && len(hostpath.Live(other)) > 0 {
			l.Note("the loop %s works in %s just now, too: each changes the files under the other, and is judged with what that did; --workspace review keeps them apart", r.ID, term.Sanitize(p.Directory))
		}
	}
}
