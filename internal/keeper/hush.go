package keeper

import (
	"sync"
	"time"
)

// hushTime is how long a program with a terminal must be idle before it counts as waiting for a
// person. A working agent keeps printing something.
const hushTime = 5 * time.Second

// hush notices when a program falls silent, and when it prints again.
type hush struct {
	after time.Duration
	tell  func(since *time.Time) // nil: the program does not wait

	mu      sync.Mutex
	last    time.Time
	timer   *time.Timer // nil before the first output
	waiting bool
	over    bool
}

// newHush starts with a program that has printed nothing yet: it is starting up, and does not wait
// for a person.
func newHush(after time.Duration, tell func(since *time.Time)) *hush {
	return &hush{after: after, tell: tell}
}

// heard is called for all output of the program.
func (h *hush) heard() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = time.Now()
	switch {
	case h.over:
	case h.timer == nil:
		h.timer = time.AfterFunc(h.after, h.silent)
	case h.waiting:
		h.waiting = false
		h.tell(nil)
		h.timer.Reset(h.after)
	}
}

// silent checks whether the time has really passed without output: output does not reset the
// timer, as that would happen for every few bytes.
func (h *hush) silent() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return
	}
	if left := h.after - time.Since(h.last); left > 0 {
		h.timer.Reset(left)
		return
	}
	h.waiting = true
	since := h.last.UTC()
	h.tell(&since)
}

// end is called when the program has ended.
func (h *hush) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	if h.timer != nil {
		h.timer.Stop()
	}
	if h.waiting {
		h.tell(nil)
	}
}
