package runs

import "github.com/bothy-dev/bothy/internal/runstate"

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
	return runstate.OnlyFlow(e, can, what, a.noteUnread)
}
