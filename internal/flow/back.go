package flow

import (
	"cmp"

	"github.com/bothy-dev/bothy/internal/gate"
	"github.com/bothy-dev/bothy/spec"
)

// SentBack tells that a step failed, and that an earlier one is done again for that.
type SentBack struct {
	By, To      string // nodes
	Round, Most int
	Why         []string
}

// Back is what the last event sent back; nil if it sent nothing.
func (s *State) Back() *SentBack { return s.back }

// goBack has an earlier step be done again, and be told what was wrong, if that may be
// once more. It keeps the hash of what it is asked to do: that is the same, so that what
// is told here is told to it. What needs it is done again because of that, by spread.
func (s *State) goBack(n *Node, wrong []string) {
	to := s.byID[n.goesBackTo()]
	if to == nil || to.Status != Completed || to.Rounds >= n.Step.Back.times() {
		return
	}
	to.Status, to.Output, to.Checks, to.Missing, to.tries, to.done = Pending, nil, nil, nil, 0, 0
	to.flawed = to.Attempts + 1 // none: what passed is among the outputs
	to.Rounds++
	to.Detail = "sent back by " + n.ID
	for _, line := range wrong {
		to.Missing = append(to.Missing, n.Step.ID+": "+line)
	}
	s.back = &SentBack{By: n.ID, To: to.ID, Round: to.Rounds, Most: n.Step.Back.times(), Why: wrong}
}

// missing lists what a try lacks.
func missing(w Work) (list []string) {
	if w.Verdict != spec.VerdictOK {
		list = append(list, cmp.Or(w.Error, "it failed"))
	}
	return append(list, gate.Result{Checks: w.Checks}.Flaws()...)
}
