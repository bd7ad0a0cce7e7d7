package loop

import (
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/run"
)

// elapsed is how long somebody has carried the loop on.
func (s *State) elapsed(now time.Time) time.Duration {
	used := time.Duration(s.Elapsed)
	if s.Status == Running && now.After(s.Last) {
		used += now.Sub(s.Last)
	}
	return used
}

// clockSlack is by how much clocks are put right without anything being wrong.
const clockSlack = time.Minute

// wakes is when an agent that could not ask a model, or a reviewer, may try again; zero if
// none is waited for, or if the clock was set back, by which nobody knows how long that is.
func (s *State) wakes(now time.Time) time.Time {
	if s.step != Worked && !s.delayed || s.limitedAt.Sub(now) > clockSlack {
		return time.Time{}
	}
	return s.Until
}

// Waits tells what the loop waits for that goes on by itself; with several workers, if all
// of them wait that have a task, for the first, since the last of them does.
func (s *State) Waits() (first run.Delay, ok bool) {
	if s.Status != Running {
		return first, false
	}
	if len(s.Workers) == 0 {
		return s.waits()
	}
	var since time.Time
	for _, w := range s.Workers {
		if w.Task == nil {
			continue
		}
		d, waits := w.waits()
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

// Denied tells whether somebody could not ask a model, and none has answered since.
func (s *State) Denied() bool {
	return s.SameLimit > 0 || slices.ContainsFunc(s.Workers, func(w *State) bool { return w.SameLimit > 0 })
}

func (s *State) waits() (run.Delay, bool) { return s.denial, !s.Until.IsZero() }
