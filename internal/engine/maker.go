package engine

import (
	"sync"

	"github.com/bothy-dev/bothy/internal/store"
)

// makers are the locks of the sandboxes that were made here for one command: one that
// was not started yet is nobody else's to sweep while its lock is held. It goes with the
// process, however that ends.
type makers struct {
	mu    sync.Mutex
	locks map[string]*store.Lock // by the sandboxes' ids
}

// begin holds the lock from before the sandbox appears.
func (m *makers) begin(id string) func(store.Sandbox) error {
	return func(d store.Sandbox) error {
		lock, err := store.TryLock(d.MakerLock())
		if err != nil {
			return err
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.locks == nil {
			m.locks = map[string]*store.Lock{}
		}
		m.locks[id] = lock
		return nil
	}
}

// end gives the lock back, if it is held here.
func (m *makers) end(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if lock := m.locks[id]; lock != nil {
		lock.Unlock()
		delete(m.locks, id)
	}
}
