package engine

import (
	"sync"

	"github.com/bothy-dev/bothy/internal/store"
)

// heldLocks are locks of sandboxes that this process holds. The kernel releases them when the process ends,
// however it ends.
type heldLocks struct {
	mu   sync.Mutex
	byID map[string]*store.Lock // by the sandboxes' ids
}

// lockOnCreation returns a function that takes a lock of a sandbox before the sandbox appears.
func (h *heldLocks) lockOnCreation(id string, path func(store.Sandbox) string) func(store.Sandbox) error {
	return func(d store.Sandbox) error {
		lock, err := store.TryLock(path(d))
		if err == nil {
			h.keepLock(id, lock)
		}
		return err
	}
}

func (h *heldLocks) keepLock(id string, lock *store.Lock) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byID == nil {
		h.byID = map[string]*store.Lock{}
	}
	h.byID[id] = lock
}

// hasLock reports whether this process holds a sandbox's lock.
func (h *heldLocks) hasLock(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.byID[id] != nil
}

// release releases a sandbox's lock, if this process holds it.
func (h *heldLocks) release(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if lock := h.byID[id]; lock != nil {
		lock.Unlock()
		delete(h.byID, id)
	}
}
