package flowplan

import (
	"slices"
	"strconv"
	"time"
)

// Node is a step, or one time of a step with a matrix or of a group.
type Node struct {
	ID     string // the step's ID; with the suffix .1, .2 ... if the step runs several times
	Step   *Step
	Matrix map[string]string
	Time   int      // of a step with a matrix, from 1
	Needs  []string // nodes
	Output string   // below outputs/; empty if it has none

	// For a step of a group: the group, and the element that it runs for, with the element's place in
	// the list, from 1.
	Group   string
	Element *Element
	Number  int
	After   []int // the places of the elements that this one needs
}

// Spot is an element in a group, by its place in the list.
type Spot struct {
	Group  string
	Number int
}

// Spot returns the group and the element of a step of a group.
func (n *Node) Spot() Spot { return n.Beside(n.Number) }

// Beside returns another element of the node's group.
func (n *Node) Beside(number int) Spot { return Spot{n.Group, number} }

// findStep returns the step with this ID that is in no group, or nil.
func (f *Flow) findStep(id string) *Step {
	for i := range f.Steps {
		if f.Steps[i].ID == id {
			return &f.Steps[i]
		}
	}
	return nil
}

// matrix returns the matrix of a step. A step that judges copies has the matrix of the step that
// works in them.
func (f *Flow) matrix(s *Step) map[string]Values {
	if of := f.findStep(s.Of); of != nil {
		return of.Matrix
	}
	return s.Matrix
}

// allNeeds returns the steps that a step names.
func (s *Step) allNeeds() []string {
	if s.Of == "" || slices.Contains(s.Needs, s.Of) {
		return s.Needs
	}
	return append(slices.Clone(s.Needs), s.Of)
}

// Nodes returns the steps of a checked flow, in an order in which they can run.
func (p *Plan) Nodes() []*Node {
	l := &layout{of: map[string][]string{}}
	for i := range p.Flow.Steps {
		s := &p.Flow.Steps[i]
		if s.Each != "" {
			l.addGroup(s, l.nodesNeeded(s, 0), p.Lists[s.ID].Elements)
			continue
		}
		for t, m := range p.matrixTimes(s) {
			n := &Node{ID: s.ID, Step: s, Matrix: m, Needs: l.nodesNeeded(s, t)}
			if m != nil {
				n.ID, n.Time = n.ID+"."+strconv.Itoa(t+1), t+1
			}
			l.addNode(n)
		}
	}
	return l.all
}

// layout puts nodes in their order.
type layout struct {
	all []*Node
	of  map[string][]string // the nodes of a step, or of all steps of a group
}

// nodesNeeded returns the nodes that one time of a step needs. Of a step that it judges, it needs the same
// time.
func (l *layout) nodesNeeded(s *Step, time int) (list []string) {
	for _, id := range s.allNeeds() {
		if id == s.Of {
			list = append(list, l.of[id][time])
		} else {
			list = append(list, l.of[id]...)
		}
	}
	return list
}

func (l *layout) addNode(n *Node) {
	n.Output, _ = outputOf(n.Step, n.Values()) // it was checked
	l.all = append(l.all, n)
	l.of[n.Step.ID] = append(l.of[n.Step.ID], n.ID)
}

// addGroup adds the steps of a group for each element. A step needs the steps that it names, of the
// same element, and the steps that the group needs.
func (l *layout) addGroup(g *Step, needs []string, elements []Element) {
	place := map[string]int{}
	for i := range elements {
		place[elements[i].ID] = i + 1
		var after []int
		for _, id := range elements[i].Needs { // an element that passes already is not in the list
			if at := place[id]; at > 0 {
				after = append(after, at)
			}
		}
		for k := range g.Steps {
			s := &g.Steps[k]
			n := &Node{ID: ofElement(s.ID, i+1), Step: s, Needs: slices.Clone(needs), Group: g.ID, Element: &elements[i], Number: i + 1, After: after}
			for _, id := range s.Needs {
				n.Needs = append(n.Needs, ofElement(id, i+1))
			}
			l.addNode(n)
			l.of[g.ID] = append(l.of[g.ID], n.ID)
		}
	}
}

// ofElement returns the node of a step of a group.
func ofElement(step string, number int) string { return step + "." + strconv.Itoa(number) }

// Values returns the values that vary between the times of a step, by the words for them.
func (n *Node) Values() map[Word]string {
	values := map[Word]string{}
	for name, value := range n.Matrix {
		values[Word{WordMatrix, name}] = value
	}
	if n.Element != nil {
		for name, value := range n.Element.Values {
			values[Word{WordEach, name}] = value
		}
		values[Word{WordEach, eachNumber}] = strconv.Itoa(n.Number)
	}
	return values
}

// Sees reports whether this node means the other one when it names that one's step: within a group, the
// node of the same element.
func (n *Node) Sees(other *Node) bool {
	if other.Step.ID == n.Step.Of {
		return other.Time == n.Time
	}
	return n.Group == "" || n.Group != other.Group || n.Number == other.Number
}

// Judges returns the node whose copy this one judges, or "".
func (n *Node) Judges() string {
	if n.Step.Of == "" {
		return ""
	}
	return n.Step.Of + "." + strconv.Itoa(n.Time)
}

// GoesBackTo returns the node that runs again if this one fails, or "".
func (n *Node) GoesBackTo() string {
	switch {
	case n.Step.Back == nil:
		return ""
	case n.Element != nil:
		return ofElement(n.Step.Back.To, n.Number)
	}
	return n.Step.Back.To
}

// Retries returns how often a step is tried again.
func (s *Step) Retries() int {
	if s.Retry != nil {
		return *s.Retry
	}
	if s.Prompt != "" {
		return 2
	}
	return 0
}

// Default times for one try.
const (
	usualPrompt  = time.Hour
	usualCommand = 10 * time.Minute
)

func (s *Step) TimeLimit() time.Duration {
	switch {
	case s.Timeout != nil:
		return time.Duration(*s.Timeout)
	case s.Prompt != "":
		return usualPrompt
	}
	return usualCommand
}
