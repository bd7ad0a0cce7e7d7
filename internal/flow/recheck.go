package flow

import (
	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/run"
)

// recheckable returns a command that failed for an element of a list, and that should be tried once
// more: the list is done and another element was done since, so its check may be green by now. It
// returns nil if none exists.
func (s *State) recheckable() *flowplan.Node {
	for i := range s.plan.Flow.Steps {
		g := &s.plan.Flow.Steps[i]
		if !g.Recheck || !s.through(g.ID) {
			continue
		}
		last := s.lastDone(g.ID)
		for _, n := range s.nodes {
			st := s.byID[n.ID]
			if n.Group == g.ID && n.Step.Command != "" && st.Status == run.Failed && !st.rechecked && st.done < last {
				return n
			}
		}
	}
	return nil
}

// through reports whether all of a group is done.
func (s *State) through(group string) bool {
	for _, n := range s.nodes {
		if n.Group != group {
			continue
		}
		if !s.byID[n.ID].settled() {
			return false
		}
		if _, due := s.isDue(n); due {
			return false
		}
	}
	return true
}

// lastDone returns the event by which the last completed element was completed.
func (g *graph) lastDone(group string) (last int64) {
	for _, e := range g.Elements() {
		if e.Group != group || e.Status != run.Completed {
			continue
		}
		for _, st := range e.states {
			last = max(last, st.done)
		}
	}
	return last
}

// recheck resets a failed step for one more try. Its count of send-backs stays, so that only later steps
// run again with it.
func (s *State) recheck(step string) {
	if st := s.byID[step]; st != nil && st.Status == run.Failed {
		st.resetStep("the others are done: it is looked at once more")
		st.rechecked = true
	}
}
