package gateway

import (
	"context"
	"sync"
)

// lifetime ends a gateway's work, and waits for it.
type lifetime struct {
	ctx    context.Context // ends with the gateway
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu sync.Mutex // held while work is added
}

func newLifetime() *lifetime {
	l := &lifetime{}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// enterWork adds work that Close waits for, unless Close has begun: the inside may try to connect just
// then, and a WaitGroup must not grow while the last work ends.
func (l *lifetime) enterWork() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return false
	}
	l.wg.Add(1)
	return true
}

// endWork lets no more work begin.
func (l *lifetime) endWork() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancel()
}
