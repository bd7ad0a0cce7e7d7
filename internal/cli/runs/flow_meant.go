package runs

import (
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/runstate"
	"github.com/bothy-dev/bothy/spec"
)

// Selects the flow that a subcommand acts on.

// maxNamed is how many runs an error lists.
const maxNamed = 10

// flowMeant finds the flow that a subcommand acts on. Without a name it is the only flow that can
// returns true for; what describes those in errors.
func (a *app) flowMeant(named []string, can func(*runstate.Flow) bool, what string) (*runstate.Flow, error) {
	if len(named) > 0 {
		return openRun(a, flows, named[0], runstate.ReadFlow)
	}
	e, err := a.Engine()
	if err != nil {
		return nil, err
	}
	list, err := runsOf(a, e, run.Flows, runstate.ReadFlow)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(l *runstate.Flow) bool { return !can(l) })
	switch len(list) {
	case 0:
		return nil, spec.Errorf(spec.ErrNotFound, "no flow %s", what).WithHint("bothy flow ls lists all")
	case 1:
		return list[0], nil
	}
	var names []string
	for _, l := range list {
		names = append(names, l.Run.ID)
	}
	if more := len(names) - maxNamed; more > 0 {
		names = append(names[:maxNamed], "...")
	}
	return nil, spec.Errorf(spec.ErrUsage, "any of these may be meant, for it %s: %s", what, strings.Join(names, ", ")).WithHint("name the run")
}
