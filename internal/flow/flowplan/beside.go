package flowplan

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"slices"

	"github.com/bothy-dev/bothy/spec"
)

// This file decides which steps may run side by side. Each running step has its own place: two never
// share a sandbox. Only one at a time works on the host's directory itself, because only one such
// directory exists. Fresh commands are the exception and may run on it side by side: they only judge.

// Most returns how many steps may run side by side.
func (p *Plan) Most() int { return cmp.Or(p.Parallel, p.Flow.Parallel, 1) }

// OnDirectory reports whether steps work on the directory of the host itself. If some work in
// copies of it, the other steps do not see the directory.
func (p *Plan) OnDirectory() bool { return p.Directory != "" && len(p.Copies()) == 0 }

// InTurn reports whether the elements of a list run one after the other, whatever they need.
func (p *Plan) InTurn() bool { return p.Most() == 1 || p.OnDirectory() }

// Beside reports whether any two steps could run side by side where the flow works.
func (p *Plan) Beside() bool {
	fresh := p.OnDirectory()
	return p.Most() > 1 && chains(p.Nodes(), p.InTurn(), func(n *Node) bool { return !n.Step.ForPerson() && !p.Never(n) && (n.Step.Fresh || !fresh) }) > 1
}

// Pools counts the sandboxes for each agent, and for commands.
func (p *Plan) Pools() map[string]int {
	pools := map[string]int{}
	nodes, turn := p.Nodes(), p.InTurn()
	for _, n := range nodes {
		name := p.RoomOf(n)
		if name == "" || p.Never(n) || n.Step.Copy || n.Step.ForPerson() || pools[name] > 0 {
			continue
		}
		pools[name] = 1
		if !turn { // otherwise one step runs at a time
			of := func(n *Node) bool { return p.RoomOf(n) == name && !p.Never(n) && !n.Step.Fresh && !n.Step.ForPerson() }
			pools[name] = max(1, min(p.Most(), chains(nodes, false, of)))
		}
	}
	return pools
}

// chains divides nodes into rows in which each needs the one before it, and counts the rows: never more
// nodes can run at a time. With only one row, no node can run beside another. turn says that elements of
// a list wait for those before them.
func chains(nodes []*Node, turn bool, of func(*Node) bool) int {
	above := needed(nodes, turn)
	var ends []int
next:
	for i, n := range nodes {
		if !of(n) {
			continue
		}
		for row, end := range ends {
			if above[i].Bit(end) == 1 {
				ends[row] = i
				continue next
			}
		}
		ends = append(ends, i)
	}
	return len(ends)
}

// needed returns, for each node, the nodes that it needs, directly or not.
func needed(nodes []*Node, turn bool) []*big.Int {
	all := make([]*big.Int, len(nodes))
	at, elements := map[string]int{}, map[Spot][]int{}
	for i, n := range nodes {
		all[i] = new(big.Int)
		put := func(k int) { all[i].SetBit(all[i].Or(all[i], all[k]), k, 1) }
		for _, id := range n.Needs {
			put(at[id])
		}
		if n.Group != "" {
			after := n.After
			if turn && n.Number > 1 {
				after = []int{n.Number - 1}
			}
			for _, number := range after {
				for _, k := range elements[n.Beside(number)] {
					put(k)
				}
			}
			elements[n.Spot()] = append(elements[n.Spot()], i)
		}
		at[n.ID] = i
	}
	return all
}

// TooMany returns the error for too many steps side by side, or too few.
func TooMany(steps int) error {
	return spec.Errorf(spec.ErrUsage, "%d steps cannot be done side by side", steps).WithHint("there can be 1 to %d", MaxParallel)
}

// checkCount refuses an impossible number of steps side by side.
func (p *Plan) checkCount() error {
	if p.Parallel < 0 || p.Parallel > MaxParallel {
		return TooMany(p.Parallel)
	}
	return nil
}

// checkParallel refuses a plan whose steps could not run side by side. The plan's agents must already
// have their real names.
func (p *Plan) checkParallel() error {
	if err := p.checkCount(); err != nil {
		return err
	}
	pools := p.Pools()
	for _, n := range p.Nodes() {
		if pool := pools[n.Step.ID]; n.Step.Copy && pool > 1 && slices.Contains(RoomsOf(n.Step.ID, pool), n.ID) {
			return spec.Errorf(spec.ErrUsage, "the step %s is called like an agent, and so would its sandboxes be", n.Step.ID).WithHint("call the step otherwise")
		}
	}
	return nil
}

// parallel checks the flow's number of steps side by side.
func (l *lint) parallel() error {
	f := l.flow
	switch {
	case f.Parallel < 0 || f.Parallel > MaxParallel:
		return fmt.Errorf("parallel: %d is not from 1 to %d", f.Parallel, MaxParallel)
	case f.Parallel < 2 || slices.ContainsFunc(f.Steps, func(s Step) bool { return s.Each != "" }): // the length of a list is not known yet
		return nil
	case chains((&Plan{Flow: f}).Nodes(), false, func(n *Node) bool { return !n.Step.ForPerson() }) < 2:
		return errors.New("parallel: no two steps could be done side by side, for each needs the one before it")
	}
	return nil
}
