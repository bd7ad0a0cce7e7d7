package keeper

import (
	"context"
	"time"

	"github.com/bothy-dev/bothy/internal/wire"
	"github.com/bothy-dev/bothy/internal/wire/unixconn"
)

// attendant is whoever has the sandbox stand still. He is listened to all the time: who
// was killed says no word, and what is done for him alone shall not go on.
type attendant struct {
	*unixconn.Conn
	word chan struct{} // he has said that he is done
	gone chan struct{} // closed when nothing more is heard of him
}

// attend begins to listen, until the conversation is closed.
func attend(c *unixconn.Conn) *attendant {
	a := &attendant{c, make(chan struct{}, 1), make(chan struct{})}
	go func() {
		defer close(a.gone)
		for c.Expect(wire.Request, &struct{}{}) == nil {
			select {
			case a.word <- struct{}{}:
			default: // one that was not asked for: he is not listened to any more
				return
			}
		}
	}()
	return a
}

// there is a context that ends when he goes.
func (a *attendant) there(ctx context.Context) (context.Context, context.CancelFunc) {
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

// hear waits for a word: for some time, and not if the sandbox shall end.
func (k *Keeper) hear(a *attendant) error {
	select {
	case <-a.word:
		return nil
	case <-k.asked:
		_ = a.SendError(k.tooLate())
	case <-a.gone:
	case <-time.After(stillTime):
	}
	a.Close()
	return errLeft
}
