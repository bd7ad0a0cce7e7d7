// Package held bounds the bytes that a sandbox makes its gateway hold at once: heads and bodies of
// requests, buffers of connections, waiting queues. Each of them has its own limit, but a program inside
// can open any number of them. This is the limit of the sum.
//
// Callers take bytes before they allocate, and refuse the work if the budget has too few left. No
// caller waits for bytes: the holders of bytes may be waiting for that caller.
package held

import (
	"sync"
	"sync/atomic"
)

// Most is the limit of one sandbox. It is enough for a thousand requests at once, and small compared
// with the memory of the sandbox itself.
const Most = 64 << 20

// ErrFull refuses work that the budget has no bytes for.
const ErrFull = full("the sandbox already makes the gateway hold as many bytes as it may: end some of its requests or connections")

type full string

func (f full) Error() string { return string(f) }

// Budget counts the bytes held by one sandbox. A nil Budget has no limit.
type Budget struct {
	most int64
	over *Budget // must have the bytes as well; nil: none
	used atomic.Int64
	peak atomic.Int64 // since memory was given back
}

// New returns a budget of so many bytes.
func New(most int64) *Budget { return &Budget{most: most} }

// Part returns a budget for a part of the work. Bytes taken from it are taken from b, too.
func (b *Budget) Part(most int64) *Budget { return &Budget{most: most, over: b} }

// Used returns how many bytes are held.
func (b *Budget) Used() int64 { return b.used.Load() }

func (b *Budget) takeBytes(n int64) bool {
	if b == nil || n <= 0 {
		return true
	}
	used := b.used.Add(n)
	if used > b.most || !b.over.takeBytes(n) {
		b.used.Add(-n)
		return false
	}
	for peak := b.peak.Load(); used > peak && !b.peak.CompareAndSwap(peak, used); peak = b.peak.Load() {
	}
	return true
}

func (b *Budget) giveBack(n int64) {
	if b == nil || n <= 0 {
		return
	}
	used := b.used.Add(-n)
	b.over.giveBack(n)
	if b.over == nil && b.peak.Load() >= b.most/8 && used <= b.most/16 {
		b.peak.Store(0)
		GiveBack()
	}
}

// Hold holds the bytes that one piece of work has taken. The zero Hold has no budget. It is safe for
// concurrent use.
type Hold struct {
	budget *Budget
	mu     sync.Mutex
	n      int64
	over   bool
}

// Hold begins with nothing.
func (b *Budget) Hold() *Hold { return &Hold{budget: b} }

// Take takes n bytes more. It returns ErrFull if the budget does not have them, or if the work
// is over.
func (h *Hold) Take(n int64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over || !h.budget.takeBytes(n) {
		return ErrFull
	}
	h.n += n
	return nil
}

// Reset gives all bytes back. The work may take others.
func (h *Hold) Reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.budget.giveBack(h.n)
	h.n = 0
}

// Release gives all bytes back, for good.
func (h *Hold) Release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	h.budget.giveBack(h.n)
	h.n = 0
}
