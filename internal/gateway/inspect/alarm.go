package inspect

import (
	"sync"
	"time"
)

// alarm calls a function when a time is over, once for each time that it was set. It replaces a
// [time.Timer] that every request sets and stops and that hardly ever goes off: its timer keeps
// running, and looks up the due time when it goes off.
type alarm struct {
	f func()

	mu    sync.Mutex
	timer *time.Timer
	wakes time.Time // when the timer goes off; zero: it does not run
	due   time.Time // when f is called; zero: not at all
}

// set schedules f after a time, and forgets the time that it was set to before. It may be called
// again from f, or after it.
func (a *alarm) set(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.due = time.Now().Add(d)
	if a.wakes.IsZero() || a.due.Before(a.wakes) {
		a.wind(a.due, d)
	}
}

// stop reports whether it kept f from being called. It returns false if f was called already, or is
// about to be.
func (a *alarm) stop() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	prevented := !a.due.IsZero()
	a.due = time.Time{}
	return prevented
}

// end is stop for good: nothing keeps running.
func (a *alarm) end() bool {
	prevented := a.stop()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.timer != nil {
		a.timer.Stop()
	}
	a.wakes = time.Time{}
	return prevented
}

// wind makes the timer go off at a time, which is after d.
func (a *alarm) wind(at time.Time, d time.Duration) {
	a.wakes = at
	if a.timer == nil {
		a.timer = time.AfterFunc(d, a.wake)
		return
	}
	a.timer.Reset(d)
}

func (a *alarm) wake() {
	if a.rings() {
		a.f()
	}
}

// rings reports whether the time is over. If not yet, the timer runs on.
func (a *alarm) rings() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wakes = time.Time{}
	if a.due.IsZero() {
		return false
	}
	if left := time.Until(a.due); left > 0 {
		a.wind(a.due, left)
		return false
	}
	a.due = time.Time{}
	return true
}
