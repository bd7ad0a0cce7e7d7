package flow

import (
	"slices"

	"github.com/bothy-dev/bothy/spec"
)

// This file decides where a step that is due is tried, and what models may take for it,
// while others are at work.

// atWork are the nodes that are tried just now.
func (s *State) atWork() (list []*Node) {
	for _, n := range s.nodes {
		if st := s.byID[n.ID]; st.Status == Running && !st.lost {
			list = append(list, n)
		}
	}
	return list
}

// free finds a sandbox in which a node can be tried now. It is empty if the node has one
// that goes with it.
func (s *State) free(n *Node) (room string, can bool) {
	busy := s.atWork()
	if len(busy) >= s.plan.Most() || s.byID[n.ID].alone && len(busy) > 0 {
		return "", false
	}
	taken := map[string]bool{}
	for _, other := range busy {
		if s.lonely && !(n.Step.Fresh && other.Step.Fresh) {
			return "", false
		}
		taken[s.byID[other.ID].room], taken[other.judges()] = true, true
	}
	switch {
	case n.Step.Of != "":
		return "", !taken[n.judges()]
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

// roomsFor are the sandboxes in which a node can be tried.
func (s *State) roomsFor(n *Node) []string {
	name := s.plan.roomOf(n)
	if n.Step.Copy {
		return []string{name}
	}
	return roomsOf(name, s.pools[name])
}

// need is how an element stands that that of a node needs: completed, failed, or skipped.
func (s *State) need(n *Node, number int) Status {
	list := s.elements[spot{n.Group, number}]
	passed := func(st *StepState) bool { return st.Status == Passed }
	switch {
	case slices.ContainsFunc(list, func(st *StepState) bool { return st.Status == Failed }):
		return Failed
	case !slices.ContainsFunc(list, func(st *StepState) bool { return !passed(st) }):
		return Passed
	}
	return Completed
}

// metered tells whether models may be asked where a node is tried: nothing is lent to a
// sandbox that goes with it.
func metered(n *Node) bool { return n.Step.Of == "" && !n.Step.Fresh }

// allot gives a node its share of what models may still take. What is at work keeps what
// it was given; the rest is for all that are due, in equal parts, as many as there is
// room for. So what they take together is never more than what there was. If nothing is
// left while others have their shares, it has to wait for them.
func (s *State) allot(n *Node) (share spec.Budget, part, can bool) {
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

// waiting counts those that are due and could be tried beside a node, and the node itself.
func (s *State) waiting(n *Node, most int) (count int) {
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
		if !metered(other) || other.Step.forPerson() || s.byID[other.ID].alone {
			continue
		}
		if _, due := s.due(other); due && s.unwanted(other) == "" {
			count++
		}
	}
	return count
}
