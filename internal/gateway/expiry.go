package gateway

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/wire"
)

// expiry waits for the next rule or lease that ends.
type expiry struct {
	ends atomic.Pointer[[]time.Time] // when each lease ends; one with the zero time never ends

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool // no timer may start any more
}

// follow notes when leases end.
func (e *expiry) follow(loans []wire.Loan) {
	ends := make([]time.Time, len(loans))
	for i := range loans {
		ends[i] = loans[i].Until
	}
	e.ends.Store(&ends)
}

// watchNext calls review when the next rule of the policy, or the next lease, has ended. It forgets the
// time that it waited for before. It loads the policy under its lock: of several callers the last one waits
// for the newest.
func (e *expiry) watchNext(load func() *policy.Policy, review func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := load()
	if e.timer != nil {
		e.timer.Stop()
	}
	now := time.Now()
	at, ok := p.NextExpiry(now)
	if ends := e.ends.Load(); ends != nil {
		for _, end := range *ends {
			if end.After(now) && (!ok || end.Before(at)) {
				at, ok = end, true
			}
		}
	}
	if ok && !e.stopped {
		e.timer = time.AfterFunc(time.Until(at)+time.Millisecond, review)
	}
}

// stopTimer ends the wait for good.
func (e *expiry) stopTimer() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped = true
	if e.timer != nil {
		e.timer.Stop()
	}
}
