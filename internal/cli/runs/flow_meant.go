package runs

import (
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/flow"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// Selects the flow that a subcommand acts on.

// maxNamed is how many runs an error lists.
const maxNamed = 10

// flowMeant finds the flow that a subcommand acts on. Without a name it is the only flow that can
// returns true for; what describes those in errors.
func (a *app) flowMeant(named []string, can func(*flowRun) bool, what string) (*flowRun, error) {
	if len(named) > 0 {
		return openRun(a, flows, named[0], readFlow)
	}
	e, err := a.Engine()
	if err != nil {
		return nil, err
	}
	list, err := runsOf(a, e, run.Flows, readFlow)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(l *flowRun) bool { return !can(l) })
	switch len(list) {
	case 0:
		return nil, spec.Errorf(spec.ErrNotFound, "there is no flow that %s", what).WithHint("bothy flow ls lists all")
	case 1:
		return list[0], nil
	}
	var names []string
	for _, l := range list {
		names = append(names, l.run.ID)
	}
	if more := len(names) - maxNamed; more > 0 {
		names = append(names[:maxNamed], "...")
	}
	return nil, spec.Errorf(spec.ErrUsage, "any of these may be meant, for it %s: %s", what, strings.Join(names, ", ")).WithHint("name the run")
}

// ends reports whether a flow can be stopped.
func (l *flowRun) ends() bool { return !l.state.Over() }

// goesOn reports whether a flow can be resumed: no process runs it, and it needs no answer first.
func (l *flowRun) goesOn() bool {
	asks := l.state.Status == run.Waiting && len(l.state.Questions()) > 0
	return !l.hosted && !l.state.Over() && !asks && l.state.Detail != cutInMaking
}

// waitsFor reports whether a flow asks a person for an approval, or else a question.
func (l *flowRun) waitsFor(approval bool) bool {
	return !l.state.Over() && slices.ContainsFunc(l.state.Questions(), func(st *flow.StepState) bool { return l.state.Approves(st) == approval })
}
