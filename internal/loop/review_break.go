package loop

import (
	"time"

	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/run"
)

// Unheard is a reviewer that gave no judgement: no model answers it for now, or it was interrupted. It
// is asked again about the same checkpoint.
type Unheard struct {
	By
	Iteration  int       `json:"iteration"`
	Gate       string    `json:"gate"`                 // its ID
	Overloaded bool      `json:"overloaded,omitempty"` // as in Work
	Until      time.Time `json:"until,omitzero"`       // when models may be asked again, if known
	Error      string    `json:"error,omitempty"`      // its message
	Usage
}

// reviewing returns the step for the next reviewer of a worker's result. It may have to wait, but not
// for ever. all has the usage of all workers.
func reviewing(p *loopplan.Plan, all, s *State, c *loopplan.Criterion, now time.Time) Step {
	if s.delayed && reached(s.SameLimit, p.Stall.SameLimit) {
		return Step{End: &End{Status: run.Stalled, Reason: "same_limit", Detail: s.denied("the reviewer " + c.ID)}}
	}
	if end := spentEnd(p, all, now); end != nil {
		return Step{End: end}
	}
	if until := s.wakeTime(now); until.After(now) {
		return Step{Wait: until}
	}
	return Step{Review: c}
}

// delayReview makes the loop wait for a reviewer, as for a worker.
func (s *State) delayReview(u Unheard, at time.Time) {
	s.Reviewing, s.delayed = "", true
	s.addLimit(run.Why(u.Overloaded), u.Until, at)
}

// addLimit records that models cannot be asked until a time, which may be wrong.
func (s *State) addLimit(why string, until, at time.Time) {
	s.SameLimit++
	s.limitedAt = at
	s.denial.Add(why, at, until, s.SameLimit)
	s.Until = s.denial.Until
}

// asking records that a reviewer is working. The loop does not wait for its models any more, even if the
// review is interrupted.
func (s *State) asking(a Asking) {
	s.Reviewing, s.Until, s.limitedAt = a.Gate, time.Time{}, time.Time{}
}

// endReviewWait ends the wait for a reviewer.
func (s *State) endReviewWait() {
	if s.delayed {
		s.delayed, s.SameLimit, s.Until = false, 0, time.Time{}
	}
}
