package gateway

import (
	"context"
	"sync"
)

// lifetime is what a gateway's work ends with, and waits for.
type lifetime struct {
	ctx    context.Context // ends with the gateway
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu sync.Mutex // held while somebody is counted in
}

func newLifetime() *lifetime {
	l := &lifetime{}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// enterWork counts somebody in for whom Close waits, unless that waits already: the inside may try to
// connect just then, and nobody may be added while the last one leaves.
func (l *lifetime) enterWork() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return false
	}
	l.wg.Add(1)
	return true
}

// endWork lets nobody enter any more.
func (l *lifetime) endWork() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancel()
}
