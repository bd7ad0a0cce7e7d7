package flow

import (
	"cmp"

	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/gate"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// SentBack says that a step failed, and that an earlier step is repeated because of that.
type SentBack struct {
	By, To      string // nodes
	Round, Most int
	Why         []string
}

// Back returns the step that the last event sent back, or nil.
func (s *State) Back() *SentBack { return s.back }

// goBack sends an earlier step back with the flaws, if one more time is allowed. The step keeps the hash
// of its task: the task is the same, so the step gets these flaws. spread makes the steps that need it
// run again.
func (s *State) goBack(n *flowplan.Node, wrong []string) {
	to := s.byID[n.GoesBackTo()]
	if to == nil || to.Status != run.Completed || to.Rounds >= n.Step.Back.Rounds() {
		return
	}
	to.Status, to.Output, to.Checks, to.Missing, to.tries, to.done = Pending, nil, nil, nil, 0, 0
	to.flawed = to.Attempts + 1 // none: what passed is among the outputs
	to.Rounds++
	to.Detail = "sent back by " + n.ID
	for _, line := range wrong {
		to.Missing = append(to.Missing, n.Step.ID+": "+line)
	}
	s.back = &SentBack{By: n.ID, To: to.ID, Round: to.Rounds, Most: n.Step.Back.Rounds(), Why: wrong}
}

// missing lists the flaws of a try.
func missing(w Work) (list []string) {
	if w.Verdict != spec.VerdictOK {
		list = append(list, cmp.Or(w.Error, "it failed"))
	}
	return append(list, gate.Result{Checks: w.Checks}.Flaws()...)
}
