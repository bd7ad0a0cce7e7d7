package run

import "time"

// Delay is that a run goes on by itself, and only later: models cannot be asked before.
type Delay struct {
	For   string    // RateLimited or Overloaded
	Since time.Time // the first of the tries in a row: the same for all of one wait
	Until time.Time
}

// What there is a delay for.
const (
	RateLimited = "rate_limited" // an allowance is used up
	Overloaded  = "overloaded"   // the provider has too much to do, whoever asks
)

// UnknownWait is for how long an agent whose allowance is used up is left alone if nobody
// says until when; it is also the longest between tries of which nobody knows more.
const UnknownWait = 5 * time.Minute

// LongestWait is for how long it is believed that models cannot be asked: the longest
// allowances that are known are given for a week.
const LongestWait = 8 * 24 * time.Hour

// Add takes it that at a time models could not be asked, until one that may be anything;
// zero is that nobody knows. Row is how often it was so in a row: what is not known, or is
// over again and again, is tried ever less often.
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

// LongWait is how long a wait may take of which nobody needs to be told.
const LongWait = time.Minute

// Long tells whether a person should hear of the delay: all of it, with the tries that
// came to nothing meanwhile, is longer than [LongWait].
func (d Delay) Long() bool { return d.Until.Sub(d.Since) > LongWait }

// Why is what there is a delay for.
func Why(overloaded bool) string {
	if overloaded {
		return Overloaded
	}
	return RateLimited
}
