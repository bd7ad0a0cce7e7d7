package session

import (
	"sync"
	"time"
)

// idleTime is how long a program with a terminal must be idle before it counts as waiting for a
// person. A working agent keeps printing something.
const idleTime = 5 * time.Second

// idle notices when a program falls silent, and when it prints again.
type idle struct {
	after time.Duration
	tell  func(since *time.Time) // nil: the program does not wait

	mu      sync.Mutex // guards all below; held while tell runs, so that it hears the changes in order
	last    time.Time
	timer   *time.Timer // nil before the first output
	waiting bool
	over    bool
}

// newIdle starts with a program that has printed nothing yet: it is starting up, and does not wait
// for a person.
func newIdle(after time.Duration, tell func(since *time.Time)) *idle {
	return &idle{after: after, tell: tell}
}

// noteOutput is called for all output of the program.
func (i *idle) noteOutput() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.last = time.Now()
	switch {
	case i.over:
	case i.timer == nil:
		i.timer = time.AfterFunc(i.after, i.checkSilence)
	case i.waiting:
		i.waiting = false
		i.tell(nil)
		i.timer.Reset(i.after)
	}
}

// checkSilence checks whether the time has really passed without output: output does not reset the
// timer, as that would happen for every few bytes.
func (i *idle) checkSilence() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.over {
		return
	}
	if left := i.after - time.Since(i.last); left > 0 {
		i.timer.Reset(left)
		return
	}
	i.waiting = true
	since := i.last.UTC()
	i.tell(&since)
}

// stopTimer is called when the program has ended.
func (i *idle) stopTimer() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.over = true
	if i.timer != nil {
		i.timer.Stop()
	}
	if i.waiting {
		i.tell(nil)
	}
}
