package engine

import (
	"sync"

	"github.com/bothy-dev/bothy/internal/store"
)

// makers are locks of sandboxes that are made here. They go with the process, however that
// ends.
type makers struct {
	mu    sync.Mutex
	locks map[string]*store.Lock // by the sandboxes' ids
}

// begin holds a lock of a sandbox from before that appears.
func (m *makers) begin(id string, path func(store.Sandbox) string) func(store.Sandbox) error {
	return func(d store.Sandbox) error {
		lock, err := store.TryLock(path(d))
		if err == nil {
			m.keep(id, lock)
		}
		return err
	}
}

func (m *makers) keep(id string, lock *store.Lock) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locks == nil {
		m.locks = map[string]*store.Lock{}
	}
	m.locks[id] = lock
}

func (m *makers) has(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.locks[id] != nil
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
