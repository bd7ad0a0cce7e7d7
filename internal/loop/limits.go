package loop

import (
	"time"

	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/run"
)

// This file changes the limits of an existing loop.

// Reached returns the end of a loop that would end at once when resumed, because it has reached a limit.
// It is nil if the limits leave some room.
func Reached(p *loopplan.Plan, s *State) *End {
	if end := spentEnd(p, s, time.Time{}); end != nil && end.Status == run.Limited {
		return end
	}
	if s.Status != run.Limited {
		return nil
	}
	return Exhausted(p, s)
}

// Exhausted returns the end of a loop that would end at once when resumed, whatever its result,
// because no iteration is left. It is nil if one is left, or if one has no result yet.
func Exhausted(p *loopplan.Plan, s *State) *End {
	if s.Iteration < p.Limits.MaxIterations {
		return nil
	}
	for _, w := range s.allStates() {
		switch {
		case w.step != "" && w.step != Judged: // a result is still to come, perhaps of a try that did not count
			return nil
		case w.step == Judged && w.Work != nil && complete(p, w): // a review or a merge is still to come
			return nil
		}
	}
	return tooMany(s)
}
