package flow

import (
	"fmt"
	"strings"

	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// ElementState is the state of an element of a list, by the steps that are done for it.
type ElementState struct {
	Group  string `json:"group"`
	Number int    `json:"number"` // its place in the list, from 1
	ID     string `json:"id"`
	Title  string `json:"title,omitempty"`
	// Status is pending, running, waiting, completed, or skipped: it is left to a person.
	Status run.Status `json:"status"`
	Why    string     `json:"why,omitempty"` // why it is skipped
	// Metered is the usage of models by all of its steps.
	Metered spec.Metered `json:"metered,omitzero"`

	states []*StepState
	review bool // a step of it failed
	unable bool // the agent of such a step failed, whatever the quality of its work
}

// Elements returns all elements of all lists, in the order in which they are done.
func (g *graph) Elements() (list []ElementState) {
	for _, n := range g.nodes {
		if n.Element == nil {
			continue
		}
		if last := len(list) - 1; last < 0 || list[last].Group != n.Group || list[last].Number != n.Number {
			list = append(list, ElementState{Group: n.Group, Number: n.Number, ID: n.Element.ID, Title: n.Element.Title()})
		}
		e := &list[len(list)-1]
		e.states = append(e.states, g.byID[n.ID])
		e.Metered.Add(g.byID[n.ID].Metered)
	}
	for i := range list {
		list[i].setStatus()
	}
	return list
}

// setStatus sets the status of an element. If one of its steps failed, it needs a person, whatever else was
// done for it.
func (e *ElementState) setStatus() {
	counts := map[run.Status]int{}
	var failed []string
	for _, st := range e.states {
		counts[st.Status]++
		if st.Attempts > 0 {
			counts[run.Queued]++ // it was begun
		}
		if st.Status == run.Failed {
			failed = append(failed, st.ID+": "+run.Head(st.Detail, maxDetail))
			e.unable = e.unable || st.unable
		}
	}
	switch {
	case counts[run.Running] > 0:
		e.Status = run.Running
	case counts[run.Waiting] > 0:
		e.Status = run.Waiting
	case counts[Pending] == len(e.states) && counts[run.Queued] == 0:
		e.Status = Pending
	case counts[Pending] > 0:
		e.Status = run.Running
	case failed != nil:
		e.Status, e.review, e.Why = Passed, true, "needs human review: "+strings.Join(failed, "; ")
	case counts[Passed] == len(e.states):
		e.Status, e.Why = Passed, e.states[0].Detail
	default:
		e.Status = run.Completed
	}
}

// maxUnable is for how many elements in a row agents may fail before no other element begins: a missing
// model is missing for all of them.
const maxUnable = 3

// forsaken explains that agents failed for too many elements in a row; empty if they did not. An element
// that is unfinished, or whose agents worked, breaks the row.
func (g *graph) forsaken() string {
	var row []ElementState
	for _, e := range g.Elements() {
		switch {
		case e.Status == Passed && !e.review:
			continue // no agent ran
		case e.Status != Passed || !e.unable:
			row = nil
			continue
		case len(row) > 0 && row[0].Group != e.Group:
			row = nil
		}
		if row = append(row, e); len(row) == maxUnable {
			return fmt.Sprintf("agents failed for %d in a row, to %s, which %s", len(row), e.ID, e.Why)
		}
	}
	return ""
}
