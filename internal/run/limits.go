package run

import (
	"encoding/json"
	"fmt"

	"github.com/bothy-dev/bothy/spec"
)

// Raised is the type of the event that a person has set limits of a run anew: its data are
// [Limits], which hold from there on.
const Raised = "raised"

// Limits are those of a run that a person can set anew. Nil is one that stays what it was;
// zero is none, but for Iterations.
type Limits struct {
	Iterations *int           `json:"max_iterations,omitempty"` // of a loop
	Time       *spec.Duration `json:"time,omitempty"`
	Tokens     *int64         `json:"tokens,omitempty"`
	USD        *float64       `json:"usd,omitempty"`
}

// Raises gives what limits were set anew by the events of a run, the last of each; nil if
// none was.
func Raises(events []Event) (*Limits, error) {
	var all *Limits
	for _, ev := range events {
		if ev.Type != Raised {
			continue
		}
		if all == nil {
			all = &Limits{}
		}
		if err := json.Unmarshal(ev.Data, all); err != nil { // what it does not name stays
			return nil, fmt.Errorf("read event %d, %s: %w", ev.Seq, ev.Type, err)
		}
	}
	return all, nil
}

// Set puts what was set anew in the place of what was asked for first.
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
