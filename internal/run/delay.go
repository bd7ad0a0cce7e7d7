package run

import "time"

// Delay says that a run continues by itself later, because no model can be asked before.
type Delay struct {
	For   string    // RateLimited or Overloaded
	Since time.Time // the first of the tries in a row: the same for the whole wait
	Until time.Time
}

// Reasons of a delay.
const (
	RateLimited = "rate_limited" // an allowance is used up
	Overloaded  = "overloaded"   // the provider is overloaded, for all callers
)

// UnknownWait is how long to leave an agent alone whose allowance is used up, if the agent does not say
// until when. It is also the longest time between tries if the end is unknown.
const UnknownWait = 5 * time.Minute

// LongestWait is the longest wait to believe in: the longest known allowances are for a week.
const LongestWait = 8 * 24 * time.Hour

// Add adds a refusal at a time, with its claimed end, or zero if that is unknown. row counts the
// refusals in a row: if the end is unknown, or was wrong again and again, tries become less frequent.
func (d *Delay) Add(why string, at, until time.Time, row int) {
	if row <= 1 {
		d.Since = at
	}
	least := min(time.Second<<min(row, 20), UnknownWait)
	if until.IsZero() && why == RateLimited {
		least = UnknownWait
	}
	wait := min(max(until.Sub(at), least), LongestWait)
	d.For, d.Until = why, at.Add(wait)
}

// LongWait is the longest wait that is not reported to a person.
const LongWait = time.Minute

// Long reports whether a person should hear of the delay: it is longer than [LongWait], failed tries
// included.
func (d Delay) Long() bool { return d.Until.Sub(d.Since) > LongWait }

// Why returns the reason of a delay.
func Why(overloaded bool) string {
	if overloaded {
		return Overloaded
	}
	return RateLimited
}
