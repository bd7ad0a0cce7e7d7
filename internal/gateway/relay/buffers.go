package relay

import (
	"sync"

	"github.com/bothy-dev/bothy/internal/gateway/held"
)

// Segment is how many bytes one packet over IPv4 carries on a sandbox's card. Bytes written in
// multiples of it leave in whole packets. 64 KiB would leave in two packets, and the one with the
// last 96 bytes costs about as much as the other.
const Segment = 65440

// Buffers of three sizes. A busy connection needs fewer system calls and wake-ups with a larger
// buffer. A connection whose reader has stopped keeps its buffer, so all but the tiny ones are
// taken from a budget.
var (
	tiny  = pool{size: 1 << 10, free: true} // for any number of connections
	small = pool{size: Segment}
	large = pool{size: 4 * Segment}
)

// pool keeps buffers of one size for reuse.
type pool struct {
	size int
	free bool // the budget does not count them
	kept sync.Pool
}

// buffer is a buffer of a pool, until it is put back.
type buffer struct {
	bytes *[]byte
	pool  *pool
	hold  *held.Hold
}

// getBuffer returns a buffer; false if the budget has too few bytes for it.
func (p *pool) getBuffer(b *held.Budget) (buffer, bool) {
	hold := b.Hold()
	if !p.free && hold.Take(int64(p.size)) != nil {
		return buffer{}, false
	}
	if kept, ok := p.kept.Get().(*[]byte); ok {
		return buffer{kept, p, hold}, true
	}
	fresh := make([]byte, p.size)
	return buffer{&fresh, p, hold}, true
}

func (b buffer) putBuffer() {
	b.pool.kept.Put(b.bytes)
	b.hold.Release()
}

// firstBuffer returns the buffer of a connection that has something to carry.
func firstBuffer(b *held.Budget) buffer {
	if s, ok := small.getBuffer(b); ok {
		return s
	}
	t, _ := tiny.getBuffer(b)
	return t
}

// growBuffer replaces a filled buffer by a larger one, if the budget allows it.
func (b buffer) growBuffer(budget *held.Budget) buffer {
	next := &small
	if b.pool != &tiny {
		next = &large
	}
	if b.pool == next {
		return b
	}
	larger, ok := next.getBuffer(budget)
	if !ok {
		return b
	}
	b.putBuffer()
	return larger
}
