package keeper

import (
	"context"
	"sync"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
)

// happenings counts what others may want to follow. Its zero value is ready.
type happenings struct {
	mu   sync.Mutex
	sum  wire.Happened
	more chan struct{} // closed when there is another; nil: nobody waits for it
}

// turn notes that a question to a model has left the inside.
func (h *happenings) turn() { h.count(&h.sum.Turns) }

// change notes that the spec is another.
func (h *happenings) change() { h.count(&h.sum.Changes) }

// count does not wait for anybody.
func (h *happenings) count(n *uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*n++
	if h.more != nil {
		close(h.more)
		h.more = nil
	}
}

// next is what there was, and what is closed when there is more.
func (h *happenings) next() (sum wire.Happened, more <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.more == nil {
		h.more = make(chan struct{})
	}
	return h.sum, h.more
}

// answerFollow tells what happens until the sandbox ends or nobody listens. Several
// things at once are told once: whoever listens is never in the way.
func (k *Keeper) answerFollow(ctx context.Context, c *unixconn.Conn) error {
	gone := make(chan struct{})
	go func() { // it says nothing more, so that this ends with the conversation
		_, _ = c.Receive()
		close(gone)
	}()
	for {
		sum, more := k.happened.next()
		if err := c.SendJSON(wire.Reply, sum); err != nil {
			return nil //nolint:nilerr // nobody listens any more
		}
		select {
		case <-more:
		case <-gone:
			return nil
		case <-ctx.Done():
			return k.tooLate()
		}
	}
}
