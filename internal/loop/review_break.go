package loop

import (
	"time"

	"github.com/bothy-dev/bothy/internal/run"
)

// Unheard is a reviewer that was asked and could not be heard: no model answers it for now,
// or it was cut short. It is asked again, about the same checkpoint.
type Unheard struct {
	By
	Iteration  int       `json:"iteration"`
	Gate       string    `json:"gate"`                 // its ID
	Overloaded bool      `json:"overloaded,omitempty"` // as of Work
	Until      time.Time `json:"until,omitzero"`       // when models may be asked again, if that is known
	Error      string    `json:"error,omitempty"`      // what it said
	Usage
}

// reviewing is what comes next of a reviewer that is to be asked of what a worker did:
// perhaps only later, and not without end. What all of them have used is in all.
func reviewing(p *Plan, all, s *State, c *Criterion, now time.Time) Step {
	if s.delayed && reached(s.SameLimit, p.Stall.SameLimit) {
		return Step{End: &End{Status: Stalled, Reason: "same_limit", Detail: s.denied("the reviewer " + c.ID)}}
	}
	if end := spent(p, all, now); end != nil {
		return Step{End: end}
	}
	if until := s.wakes(now); until.After(now) {
		return Step{Wait: until}
	}
	return Step{Review: c}
}

// delay has a reviewer be waited for, as who works is.
func (s *State) delay(u Unheard, at time.Time) {
	s.Reviewing, s.delayed = "", true
	s.limit(run.Why(u.Overloaded), u.Until, at)
}

// limit takes it that models cannot be asked, until a time that may be anything.
func (s *State) limit(why string, until, at time.Time) {
	s.SameLimit++
	s.limitedAt = at
	s.denial.Add(why, at, until, s.SameLimit)
	s.Until = s.denial.Until
}

// asking has a reviewer be at work: nobody waits for it, also if it is cut short.
func (s *State) asking(a Asking) {
	s.Reviewing, s.Until, s.limitedAt = a.Gate, time.Time{}, time.Time{}
}

// heard ends the waiting for a reviewer.
func (s *State) heard() {
	if s.delayed {
		s.delayed, s.SameLimit, s.Until = false, 0, time.Time{}
	}
}
