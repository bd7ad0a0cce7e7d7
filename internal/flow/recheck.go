package flow

// recheckable is a command that failed for an element of a list, and is to be tried once more
// because the list is through and another element was done since: what was red for this one
// may be green by now. Nil if there is none.
func (s *State) recheckable() *Node {
	for i := range s.plan.Flow.Steps {
		g := &s.plan.Flow.Steps[i]
		if !g.Recheck || !s.through(g.ID) {
			continue
		}
		last := s.lastDone(g.ID)
		for _, n := range s.nodes {
			st := s.byID[n.ID]
			if n.Group == g.ID && n.Step.Command != "" && st.Status == Failed && !st.rechecked && st.done < last {
				return n
			}
		}
	}
	return nil
}

// through tells whether nothing of a group is left to do.
func (s *State) through(group string) bool {
	for _, n := range s.nodes {
		if n.Group != group {
			continue
		}
		if !s.byID[n.ID].Status.settled() {
			return false
		}
		if _, due := s.due(n); due {
			return false
		}
	}
	return true
}

// lastDone is the event by which the last of the elements was completed that are.
func (s *State) lastDone(group string) (last int64) {
	for _, e := range s.Elements() {
		if e.Group != group || e.Status != Completed {
			continue
		}
		for _, st := range e.states {
			last = max(last, st.done)
		}
	}
	return last
}

// recheck has a step that failed be tried once more. How often it has sent back stays known,
// so that only what comes after it is done again with it.
func (s *State) recheck(step string) {
	if st := s.byID[step]; st != nil && st.Status == Failed {
		st.reset("the others are done: it is looked at once more")
		st.rechecked = true
	}
}
