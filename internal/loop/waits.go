package loop

import (
	"slices"
	"time"

	"github.com/bothy-dev/bothy/internal/run"
)

func (s *State) elapsed(now time.Time) time.Duration {
	used := time.Duration(s.Elapsed)
	if s.Status == Running && now.After(s.Last) {
		used += now.Sub(s.Last)
	}
	return used
}

const clockSlack = time.Minute

func (s *State) wakes(now time.Time) time.Time {
	if s.step != Worked && !s.delayed || s.limitedAt.Sub(now) > clockSlack {
		return time.Time{}
	}
	return s.Until
}

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

func (s *State) Denied() bool {
	return s.SameLimit > 0 || slices.ContainsFunc(s.Workers, func(w *State) bool { return w.SameLimit > 0 })
}

func (s *State) waits() (run.Delay, bool) { return s.denial, !s.Until.IsZero() }
