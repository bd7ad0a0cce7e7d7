package loop

import (
	"time"

	"github.com/bothy-dev/bothy/internal/run"
)

// This file has what people do to the limits of a loop that there is.

// Raise has the limits be those that a person has set anew.
func (p *Plan) Raise(l *run.Limits) {
	if l == nil {
		return
	}
	if l.Iterations != nil {
		p.Limits.MaxIterations = *l.Iterations
	}
	l.Set(&p.Limits.Time, &p.Limits.Tokens, &p.Limits.USD)
}

// Reached is how a loop would end at once that somebody goes on with, because it has come to
// a limit; nil if there is something left.
func Reached(p *Plan, s *State) *End {
	if end := spent(p, s, time.Time{}); end != nil && end.Status == Limited {
		return end
	}
	if s.Status != Limited {
		return nil
	}
	return Exhausted(p, s)
}

// Exhausted is how a loop would end at once that somebody goes on with, whatever it has come to,
// because there is no iteration left; nil if there is one, or one is still to have a result.
func Exhausted(p *Plan, s *State) *End {
	if s.Iteration < p.Limits.MaxIterations {
		return nil
	}
	for _, w := range append([]*State{s}, s.Workers...) {
		switch {
		case w.step != "" && w.step != Judged: // there is a result to come, perhaps of a try that did not count
			return nil
		case w.step == Judged && w.Work != nil && complete(p, w): // a reviewer is to be asked, or it is to be brought together
			return nil
		}
	}
	return tooMany(s)
}
