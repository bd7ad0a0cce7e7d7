package keeper

import (
	"context"
	"sync"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
)

// happenings counts events that callers can follow. The zero value is ready to use.
type happenings struct {
	mu   sync.Mutex // guards all below
	sum  wire.Happened
	more chan struct{} // closed at the next event; nil if no caller waits
}

// countTurn notes that a request to a model has left the inside.
func (h *happenings) countTurn() { h.countOne(&h.sum.Turns) }

// countChange notes that the spec has changed.
func (h *happenings) countChange() { h.countOne(&h.sum.Changes) }

// countOne never waits.
func (h *happenings) countOne(n *uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*n++
	if h.more != nil {
		close(h.more)
		h.more = nil
	}
}

// nextEvent returns the counts so far, and a channel that is closed at the next event.
func (h *happenings) nextEvent() (sum wire.Happened, more <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.more == nil {
		h.more = make(chan struct{})
	}
	return h.sum, h.more
}

// answerFollow reports events until the sandbox ends or the caller hangs up. Several events at
// once make one report, so a slow caller never blocks the keeper.
func (k *Keeper) answerFollow(ctx context.Context, c *unixconn.Conn) error {
	gone := make(chan struct{})
	go func() { // the caller says nothing more, so this ends with the connection
		_, _ = c.Receive()
		close(gone)
	}()
	for {
		sum, more := k.happened.nextEvent()
		if err := c.SendJSON(wire.Reply, sum); err != nil {
			return nil //nolint:nilerr // the caller has hung up
		}
		select {
		case <-more:
		case <-gone:
			return nil
		case <-ctx.Done():
			return k.life.tooLate()
		}
	}
}
