// Package alarm calls a function when a time is over, for times that are set often and hardly ever
// come.
package alarm

import (
	"sync"
	"time"
)

// Alarm calls a function when a time is over, once for each time that it was set. It replaces a
// [time.Timer] that every request sets and stops and that hardly ever goes off: its timer keeps
// running, and looks up the due time when it goes off.
type Alarm struct {
	Call func() // is set before the first Set

	mu    sync.Mutex
	timer *time.Timer
	wakes time.Time // when the timer goes off; zero: it does not run
	due   time.Time // when Call is called; zero: not at all
}

// Set schedules Call after a time, and forgets the time that it was set to before. It may be called
// again from Call, or after it.
func (a *Alarm) Set(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.due = time.Now().Add(d)
	if a.wakes.IsZero() || a.due.Before(a.wakes) {
		a.windTimer(a.due, d)
	}
}

// Stop reports whether it kept Call from being called. It returns false if Call was called already, or is
// about to be.
func (a *Alarm) Stop() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	prevented := !a.due.IsZero()
	a.due = time.Time{}
	return prevented
}

// End is stop for good: nothing keeps running.
func (a *Alarm) End() bool {
	prevented := a.Stop()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.timer != nil {
		a.timer.Stop()
	}
	a.wakes = time.Time{}
	return prevented
}

// windTimer makes the timer go off at a time, which is after d.
func (a *Alarm) windTimer(at time.Time, d time.Duration) {
	a.wakes = at
	if a.timer == nil {
		a.timer = time.AfterFunc(d, a.wakeUp)
		return
	}
	a.timer.Reset(d)
}

func (a *Alarm) wakeUp() {
	if a.isDue() {
		a.Call()
	}
}

// isDue reports whether the time is over. If not yet, the timer runs on.
func (a *Alarm) isDue() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wakes = time.Time{}
	if a.due.IsZero() {
		return false
	}
	if left := time.Until(a.due); left > 0 {
		a.windTimer(a.due, left)
		return false
	}
	a.due = time.Time{}
	return true
}
