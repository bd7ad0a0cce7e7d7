package run

import (
	"encoding/json"
	"fmt"

	"github.com/bothy-dev/bothy/spec"
)

// Raised is the type of the event that a person has changed limits of a run. Its data are the new
// [Limits].
const Raised = "raised"

// Limits are the limits of a run that a person can change. Nil leaves a limit unchanged; zero is
// unlimited, except for Iterations.
type Limits struct {
	Iterations *int           `json:"max_iterations,omitempty"` // of a loop
	Time       *spec.Duration `json:"time,omitempty"`
	Tokens     *int64         `json:"tokens,omitempty"`
	USD        *float64       `json:"usd,omitempty"`
}

// Raises returns the limits that events of a run have changed, with the last value of each. It returns
// nil if there are none.
func Raises(events []Event) (*Limits, error) {
	var all *Limits
	for _, ev := range events {
		if ev.Type != Raised {
			continue
		}
		if all == nil {
			all = &Limits{}
		}
		if err := json.Unmarshal(ev.Data, all); err != nil { // limits without a value keep the earlier one
			return nil, fmt.Errorf("read event %d, %s: %w", ev.Seq, ev.Type, err)
		}
	}
	return all, nil
}

// Set replaces the first limits with the changed ones.
func (l *Limits) Set(time *spec.Duration, tokens *int64, usd *float64) {
	if l.Time != nil {
		*time = *l.Time
	}
	if l.Tokens != nil {
		*tokens = *l.Tokens
	}
	if l.USD != nil {
		*usd = *l.USD
	}
}
