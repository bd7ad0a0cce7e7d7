package loop

import (
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/run"
)

// clockSlack is the size of a normal clock correction.
const clockSlack = time.Minute

// wakeTime returns when an agent or a reviewer that could not ask a model may try again. It is zero if none
// waits. It is also zero if the clock was set back, because then the length of the wait is unknown.
func (s *State) wakeTime(now time.Time) time.Time {
	if s.step != Worked && !s.delayed || s.limitedAt.Sub(now) > clockSlack {
		return time.Time{}
	}
	return s.Until
}

// Waits returns the delay after which the loop continues by itself. With several workers, all that have
// a task must wait. The delay ends with the first of their waits, and began with the last.
func (s *State) Waits() (first run.Delay, ok bool) {
	if s.Status != run.Running {
		return first, false
	}
	if len(s.Workers) == 0 {
		return s.ownDelay()
	}
	var since time.Time
	for _, w := range s.Workers {
		if w.Task == nil {
			continue
		}
		d, waits := w.ownDelay()
		if !waits {
			return run.Delay{}, false
		}
		if d.Since.After(since) {
			since = d.Since
		}
		if first.Until.IsZero() || d.Until.Before(first.Until) {
			first, ok = d, true
		}
	}
	first.Since = since
	return first, ok
}

// Denied reports whether an agent could not ask a model, and none has answered since.
func (s *State) Denied() bool {
	return s.SameLimit > 0 || slices.ContainsFunc(s.Workers, func(w *State) bool { return w.SameLimit > 0 })
}

func (s *State) ownDelay() (run.Delay, bool) { return s.denial, !s.Until.IsZero() }
