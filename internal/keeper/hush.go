package keeper

import (
	"sync"
	"time"
)

// hushTime is how long a program with a terminal says nothing before it counts
// as waiting for a person. While agents work something moves all the time.
const hushTime = 5 * time.Second

// hush notices when a program falls silent, and when it speaks again.
type hush struct {
	after time.Duration
	tell  func(since *time.Time) // nil: it does not wait

	mu      sync.Mutex
	last    time.Time
	timer   *time.Timer
	waiting bool
	over    bool
}

// newHush begins with a program that has said nothing yet.
func newHush(after time.Duration, tell func(since *time.Time)) *hush {
	h := &hush{after: after, tell: tell, last: time.Now()}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer = time.AfterFunc(after, h.silent)
	return h
}

// heard is called for everything the program says.
func (h *hush) heard() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = time.Now()
	if h.waiting && !h.over {
		h.waiting = false
		h.tell(nil)
		h.timer.Reset(h.after)
	}
}

// silent looks whether the time has really passed without a word: what is said
// does not reset the timer, which would be done for every few bytes.
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
	h.timer.Stop()
	if h.waiting {
		h.tell(nil)
	}
}
