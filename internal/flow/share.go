package flow

import (
	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/spec"
)

// This file decides where a due step runs, and its limits of model usage, while other steps are
// running.

// freeRoom finds a sandbox in which a node can run now. room is empty if the node gets a sandbox of its own.
func (s *State) freeRoom(n *flowplan.Node) (room string, can bool) {
	busy := s.atWork()
	if len(busy) >= s.plan.Most() || s.byID[n.ID].alone && len(busy) > 0 {
		return "", false
	}
	taken := map[string]bool{}
	for _, other := range busy {
		if s.lonely && !(n.Step.Fresh && other.Step.Fresh) {
			return "", false
		}
		taken[s.byID[other.ID].room], taken[other.Judges()] = true, true
	}
	switch {
	case n.Step.Of != "":
		return "", !taken[n.Judges()]
	case n.Step.Fresh:
		return "", true
	}
	for _, room := range s.roomsFor(n) {
		if !taken[room] {
			return room, true
		}
	}
	return "", false
}

// roomsFor returns the sandboxes in which a node can run.
func (s *State) roomsFor(n *flowplan.Node) []string {
	name := s.plan.RoomOf(n)
	if n.Step.Copy {
		return []string{name}
	}
	return flowplan.RoomsOf(name, s.pools[name])
}

// metered reports whether a node's sandbox may use models. A sandbox that is made for one node
// gets no credentials.
func metered(n *flowplan.Node) bool { return n.Step.Of == "" && !n.Step.Fresh }

// allotShare gives a node its share of the remaining budget. Running steps keep their shares. The rest
// is divided equally among the due steps, as many as can run. So together they never use more than
// the budget. If the rest is used up while others have shares, the node waits for them.
func (s *State) allotShare(n *flowplan.Node) (share spec.Budget, part, can bool) {
	l := s.plan.Limits
	if !metered(n) || l.Tokens <= 0 && l.USD <= 0 {
		return spec.Budget{}, false, true
	}
	tokens, usd := l.Tokens-s.Tokens, l.USD-s.USD
	busy := s.atWork()
	for _, other := range busy {
		given := s.byID[other.ID].share
		tokens, usd = tokens-given.Tokens, usd-given.USD
		part = part || given != (spec.Budget{})
	}
	if part && (l.Tokens > 0 && tokens <= 0 || l.USD > 0 && usd <= 0) {
		return spec.Budget{}, false, false
	}
	parts := 1
	if !s.byID[n.ID].alone {
		parts = s.waiting(n, s.plan.Most()-len(busy))
	}
	if l.Tokens > 0 {
		share.Tokens = max(tokens/int64(parts), 1)
	}
	if l.USD > 0 {
		share.USD = max(usd/float64(parts), 1e-9)
	}
	return share, part || parts > 1, true
}

// waiting counts the nodes that are due and could run beside a node, and the node itself.
func (s *State) waiting(n *flowplan.Node, most int) (count int) {
	if s.lonely {
		return 1
	}
	for _, other := range s.nodes {
		if count >= most {
			return most
		}
		if other == n {
			count++
			continue
		}
		if !metered(other) || other.Step.ForPerson() || s.byID[other.ID].alone {
			continue
		}
		if _, due := s.isDue(other); due && s.unwanted(other) == "" {
			count++
		}
	}
	return count
}
