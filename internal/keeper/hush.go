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
	timer   *time.Timer // nil before its first word
	waiting bool
	over    bool
}

// newHush begins with a program that has said nothing yet: it starts, and waits
// for nobody.
func newHush(after time.Duration, tell func(since *time.Time)) *hush {
	return &hush{after: after, tell: tell}
}

// heard is called for everything the program says.
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
	if h.timer != nil {
		h.timer.Stop()
	}
	if h.waiting {
		h.tell(nil)
	}
}
