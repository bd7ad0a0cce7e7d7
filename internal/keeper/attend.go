package keeper

import (
	"context"
	"time"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
)

// attendant is a caller that has paused the sandbox. The keeper listens to it all the time:
// a killed caller sends no word, and work done only for that caller must then stop.
type attendant struct {
	*unixconn.Conn
	word chan struct{} // the caller has said that it is done
	gone chan struct{} // closed when nothing more is heard of the caller
}

// listenTo starts listening until the connection is closed.
func listenTo(c *unixconn.Conn) *attendant {
	a := &attendant{c, make(chan struct{}, 1), make(chan struct{})}
	go func() {
		defer close(a.gone)
		for c.Expect(wire.Request, &struct{}{}) == nil {
			select {
			case a.word <- struct{}{}:
			default: // an unexpected word: stop listening to this caller
				return
			}
		}
	}()
	return a
}

// contextWhileThere returns a context that ends when the caller goes.
func (a *attendant) contextWhileThere(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-a.gone:
			cancel(errLeft)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(context.Canceled) }
}

// awaitWord waits for a word, for a limited time. It returns early if the sandbox is to end.
func (k *Keeper) awaitWord(a *attendant) error {
	select {
	case <-a.word:
		return nil
	case <-k.life.asked:
		_ = a.SendError(k.life.tooLate())
	case <-a.gone:
	case <-time.After(pauseTime):
	}
	a.Close()
	return errLeft
}
