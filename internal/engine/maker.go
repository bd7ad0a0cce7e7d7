package engine

import (
	"sync"

	"github.com/bothy-dev/bothy/internal/store"
)

// makers are the locks of sandboxes that this process makes. The kernel releases them when the
// process ends, however it ends.
type makers struct {
	mu    sync.Mutex
	locks map[string]*store.Lock // by the sandboxes' ids
}

// beginMaking takes a lock of a sandbox before the sandbox appears.
func (m *makers) beginMaking(id string, path func(store.Sandbox) string) func(store.Sandbox) error {
	return func(d store.Sandbox) error {
		lock, err := store.TryLock(path(d))
		if err == nil {
			m.keepLock(id, lock)
		}
		return err
	}
}

func (m *makers) keepLock(id string, lock *store.Lock) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locks == nil {
		m.locks = map[string]*store.Lock{}
	}
	m.locks[id] = lock
}

func (m *makers) hasLock(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.locks[id] != nil
}

// endMaking releases a sandbox's lock, if this process holds it.
func (m *makers) endMaking(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if lock := m.locks[id]; lock != nil {
		lock.Unlock()
		delete(m.locks, id)
	}
}
