package flow

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/run"
)

// graph has the nodes of a flow with their states. It answers what became of the steps that a node needs.
type graph struct {
	plan        *flowplan.Plan
	nodes       []*flowplan.Node
	byID        map[string]*StepState
	elements    map[flowplan.Spot][]*StepState
	definitions map[string]string // of nodes, by their IDs: they never change
}

// newGraph returns the nodes of a plan, none of which has a result.
func newGraph(p *flowplan.Plan) graph {
	g := graph{plan: p, nodes: p.Nodes(), byID: map[string]*StepState{}, elements: map[flowplan.Spot][]*StepState{}, definitions: map[string]string{}}
	for _, n := range g.nodes {
		st := &StepState{ID: n.ID, Status: Pending, Group: n.Group, Matrix: n.Matrix, node: n}
		if n.Element != nil {
			st.Element = n.Element.ID
			g.elements[n.Spot()] = append(g.elements[n.Spot()], st)
		}
		g.byID[n.ID] = st
	}
	return g
}

func (g *graph) nodeOf(id string) *flowplan.Node { return g.byID[id].node }

// needsOf returns the steps that a node needs, including those of the elements that its own element
// needs.
func (g *graph) needsOf(n *flowplan.Node) []*StepState {
	list := make([]*StepState, 0, len(n.Needs))
	for _, id := range n.Needs {
		list = append(list, g.byID[id])
	}
	for _, number := range n.After {
		list = append(list, g.elements[n.Beside(number)]...)
	}
	return list
}

// definition returns the definition from the plan. It caches it, because a waiting flow needs it again
// and again.
func (g *graph) definition(n *flowplan.Node) string {
	if g.definitions[n.ID] == "" {
		g.definitions[n.ID] = g.plan.Definition(n)
	}
	return g.definitions[n.ID]
}

// Step returns the state of a step, or nil.
func (g *graph) Step(id string) *StepState { return g.byID[id] }

// unwanted explains why a node whose needs have results is skipped; empty if it is not.
func (g *graph) unwanted(n *flowplan.Node) string {
	for _, number := range n.After {
		if g.elementStatus(n, number) != run.Completed {
			return g.elements[n.Beside(number)][0].Element + ", which it needs, was not done"
		}
	}
	return g.plan.Rejects(n, flowplan.Progress{
		Succeeded: func() bool { return g.succeeded(n) },
		Failed:    func() bool { return g.failedAbove(n) },
		Status:    func(step string) string { return string(g.together(n, step)) },
	})
}

// excluded reports whether a node was skipped because of its own condition alone, or because of that of
// the copy that it would judge.
func (g *graph) excluded(n *flowplan.Node) bool {
	return g.byID[n.ID].Status == Passed && (g.plan.Excludes(n) || n.Judges() != "" && g.excluded(g.nodeOf(n.Judges())))
}

// succeeded reports whether all steps that a node needs are completed. In a step with several
// times, or a group, the parts that their own conditions exclude are not missed, if any part was
// done.
func (g *graph) succeeded(n *flowplan.Node) bool {
	done := map[string]bool{} // the needed steps and groups
	for _, id := range n.Needs {
		need := g.nodeOf(id)
		of := need.Step.ID
		if need.Group != "" && need.Group != n.Group {
			of = need.Group
		}
		switch completed := g.byID[id].Status == run.Completed; {
		case completed || g.excluded(need):
			done[of] = done[of] || completed
		default:
			return false
		}
	}
	return !slices.Contains(slices.Collect(maps.Values(done)), false)
}

// failedAbove reports whether a node that this one needs, directly or not, has failed.
func (g *graph) failedAbove(n *flowplan.Node) bool {
	above := map[string]bool{}
	for _, id := range n.Needs {
		above[id] = true
	}
	for _, n := range slices.Backward(g.nodes) { // a needed node comes before those that need it
		if !above[n.ID] {
			continue
		}
		if g.byID[n.ID].Status == run.Failed {
			return true
		}
		for _, id := range n.Needs {
			above[id] = true
		}
	}
	return false
}

// together returns the combined status of all times of a step or a group, as a node sees it and as
// succeeded defines it.
func (g *graph) together(by *flowplan.Node, step string) run.Status {
	status, done := run.Completed, false
	for _, n := range g.nodes {
		if n.Step.ID != step && n.Group != step || !by.Sees(n) {
			continue
		}
		switch st := g.byID[n.ID].Status; {
		case st == run.Failed:
			return run.Failed
		case st == run.Completed:
			done = true
		case !g.excluded(n):
			status = st
		}
	}
	if status == run.Completed && !done {
		return Passed
	}
	return status
}

// WorkLeft reports whether a step is left that is not for a person.
func (g *graph) WorkLeft() bool {
	return slices.ContainsFunc(g.nodes, func(n *flowplan.Node) bool {
		st := g.byID[n.ID]
		return !n.Step.ForPerson() && st.Status != run.Completed && st.Status != Passed
	})
}

// Approves reports whether a waiting step wants an approval, and not an answer.
func (g *graph) Approves(st *StepState) bool { return g.nodeOf(st.ID).Step.Approval != nil }

// fruitless explains why the final step was skipped, so that the flow has no output. It is empty if that
// step was done, or the flow has none.
func (g *graph) fruitless() (why string) {
	for _, n := range g.nodes {
		if !n.Step.Final {
			continue
		}
		st := g.byID[n.ID]
		if st.Status == run.Completed {
			return ""
		}
		why = cmp.Or(why, n.ID+" was passed over: "+run.Head(st.Detail, maxDetail))
	}
	return why
}

// elementStatus returns the status of an element that the node's element needs: completed, failed, or
// skipped.
func (g *graph) elementStatus(n *flowplan.Node, number int) run.Status {
	list := g.elements[n.Beside(number)]
	passed := func(st *StepState) bool { return st.Status == Passed }
	switch {
	case slices.ContainsFunc(list, func(st *StepState) bool { return st.Status == run.Failed }):
		return run.Failed
	case !slices.ContainsFunc(list, func(st *StepState) bool { return !passed(st) }):
		return Passed
	}
	return run.Completed
}

// atWork returns the nodes that are running.
func (g *graph) atWork() (list []*flowplan.Node) {
	for _, n := range g.nodes {
		if st := g.byID[n.ID]; st.Status == run.Running && !st.lost {
			list = append(list, n)
		}
	}
	return list
}

// outputsOf returns the paths of a step's outputs, as another node sees it: one for each of its times
// that has an output.
func (g *graph) outputsOf(by *flowplan.Node, step string, at place) (list []string) {
	for _, n := range g.nodes {
		if n.Step.ID == step && by.Sees(n) && g.byID[n.ID].Output != nil {
			list = append(list, at.outputPath(n.Output))
		}
	}
	return list
}

// begins returns when work on a step began, as another node sees it, in seconds since 1970: its first
// try, including tries that were sent back.
func (g *graph) begins(by *flowplan.Node, step string) (list []string) {
	for _, n := range g.nodes {
		if since := g.byID[n.ID].since; n.Step.ID == step && by.Sees(n) && !since.IsZero() {
			list = append(list, fmt.Sprintf("%d.%09d", since.Unix(), since.Nanosecond()))
		}
	}
	return list
}
