package runs

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/engine"
	"github.com/bothy-dev/bothy/internal/run"
)

// Handles sandboxes that an ended run should have removed: its process was killed after it recorded
// the end. They hold nothing of the user's.

// left returns the names of the sandboxes that a flow left behind.
func (l *flowRun) left() []string {
	if l.hosted || !l.clears() {
		return nil
	}
	copies := l.plan.Copies() // their changes wait for a person
	var ids []string
	for _, room := range slices.Sorted(maps.Keys(l.plan.Sandboxes)) {
		id := l.plan.Sandboxes[room]
		if slices.Contains(copies, room) || !l.state.Ready && l.engine.Store.Sandbox(id).MayHaveStarted() {
			continue // the run was never ready, and the user has started it since
		}
		ids = append(ids, id)
	}
	return thereOf(l.engine, ids)
}

// clears reports whether a flow in this state should have no sandboxes left.
func (l *flowRun) clears() bool {
	if l.run.Gone() {
		return l.takes()
	}
	return l.state.Over() && l.plan.Remove
}

// left returns the names of the workers' sandboxes that a loop left behind.
func (l *loopRun) left() []string {
	if l.hosted || !l.state.Ready || !l.state.Final() {
		return nil
	}
	var ids []string
	for _, at := range workplaces(l.state) {
		ids = append(ids, at.ID)
	}
	return thereOf(l.engine, ids)
}

// thereOf returns the names of the given sandboxes that exist.
func thereOf(e *engine.Engine, ids []string) (names []string) {
	for _, id := range ids {
		if _, err := os.Lstat(e.Store.Sandbox(id).Dir); err != nil {
			continue
		}
		name := id
		if sb, err := e.Store.Load(id); err == nil {
			name = cmp.Or(sb.Name, id)
		}
		names = append(names, name)
	}
	return names
}

// leftRow lists the sandboxes that a run left behind, and the command that removes them.
func leftRow(r *run.Run, names []string) [][2]string {
	if len(names) == 0 {
		return nil
	}
	if r.Gone() {
		return [][2]string{{"left", fmt.Sprintf("%s: bothy %s rm %s removes that", strings.Join(names, ", "), r.Kind, r.ID)}}
	}
	return [][2]string{{"left", fmt.Sprintf("%s, which it was to remove: bothy %s resume %s does it, bothy %s rm %s removes the run, too", strings.Join(names, ", "), r.Kind, r.ID, r.Kind, r.ID)}}
}
