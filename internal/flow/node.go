package flow

import (
	"maps"
	"slices"
	"strconv"
	"time"
)

// Node is a step, or one time of a step with a matrix.
type Node struct {
	ID     string // the step's; with .1, .2 ... behind it if it has a matrix
	Step   *Step
	Matrix map[string]string
	Needs  []string // nodes
	Output string   // below outputs/; empty if it has none
}

// times are the values of the matrix, for each time; one without any if there is none.
func (s *Step) times() []map[string]string {
	list := []map[string]string{nil}
	for _, name := range slices.Sorted(maps.Keys(s.Matrix)) {
		var next []map[string]string
		for _, m := range list {
			for _, value := range s.Matrix[name] {
				with := maps.Clone(m)
				if with == nil {
					with = map[string]string{}
				}
				with[name] = string(value)
				next = append(next, with)
			}
		}
		list = next
	}
	return list
}

// nodes are the steps of a flow that was checked, in an order in which they can be done.
func (f *Flow) nodes() []*Node {
	var all []*Node
	of := map[string][]string{}
	for i := range f.Steps {
		s := &f.Steps[i]
		var needs []string
		for _, id := range s.Needs {
			needs = append(needs, of[id]...)
		}
		for t, m := range s.times() {
			n := &Node{ID: s.ID, Step: s, Matrix: m, Needs: needs}
			if m != nil {
				n.ID += "." + strconv.Itoa(t+1)
			}
			n.Output, _ = outputOf(s, m) // it was checked
			all = append(all, n)
			of[s.ID] = append(of[s.ID], n.ID)
		}
	}
	return all
}

// retry is how often a step is tried again.
func (s *Step) retry() int {
	if s.Retry != nil {
		return *s.Retry
	}
	if s.Prompt != "" {
		return 2
	}
	return 0
}

// Usual times for one try.
const (
	usualPrompt  = time.Hour
	usualCommand = 10 * time.Minute
)

func (s *Step) timeout() time.Duration {
	switch {
	case s.Timeout > 0:
		return time.Duration(s.Timeout)
	case s.Prompt != "":
		return usualPrompt
	}
	return usualCommand
}
