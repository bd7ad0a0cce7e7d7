package relay

import (
	"sync"
	"sync/atomic"
)

// Segment is how many bytes one packet over IPv4 carries on a sandbox's card.
// Written in multiples of it, bytes leave in whole packets. 64 KiB would leave in
// two, of which the one with the last 96 bytes costs about as much as the other.
const Segment = 65440

// Buffers of three sizes. A connection that carries much needs fewer system calls
// and wake-ups if it takes more at once. How many may is bounded: one whose
// reader has stopped keeps its buffer.
var (
	tiny  = pool{size: 4 << 10} // for as many as there are connections
	small = pool{size: Segment, most: 256}
	large = pool{size: 4 * Segment, most: 64}
)

// pool keeps buffers of a size for use again.
type pool struct {
	size int
	most int64 // in use at once; 0 is as many as there are connections
	used atomic.Int64
	free sync.Pool
}

// get gives a buffer; nil if all are in use.
func (p *pool) get() *[]byte {
	if p.most > 0 && p.used.Add(1) > p.most {
		p.used.Add(-1)
		return nil
	}
	if b, ok := p.free.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, p.size)
	return &b
}

func (p *pool) put(b *[]byte) {
	p.free.Put(b)
	if p.most > 0 {
		p.used.Add(-1)
	}
}

// larger is the next size; nil if there is none.
func (p *pool) larger() *pool {
	switch p {
	case &tiny:
		return &small
	case &small:
		return &large
	}
	return nil
}
