package flow

import "time"

// until is a time that is over at once.
func (Job) until() time.Time { return time.Now() }
