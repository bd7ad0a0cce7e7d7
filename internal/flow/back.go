package flow

import (
	"cmp"

	"github.com/bothy-dev/bothy/internal/gate"
	"github.com/bothy-dev/bothy/spec"
)

type SentBack struct {
	By, To      string // nodes
	Round, Most int
	Why         []string
}

func (s *State) Back() *SentBack { return s.back }

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

func missing(w Work) (list []string) {
	if w.Verdict != spec.VerdictOK {
		list = append(list, cmp.Or(w.Error, "it failed"))
	}
	return append(list, gate.Result{Checks: w.Checks}.Flaws()...)
}
