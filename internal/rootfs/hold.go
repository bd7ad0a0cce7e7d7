package rootfs

import (
	"sync"

	"github.com/bothy-dev/bothy/internal/store"
)

// Hold keeps images from being removed while a sandbox with one is about to be created. The zero
// value holds none.
type Hold struct {
	mu    sync.Mutex
	lock  *store.Lock
	stale bool // an image may have lost its name since
}

// Hold keeps all images until [Images.Release], or until this process ends. Callers call it before
// they look for the image.
func (i *Images) Hold() error {
	i.Held.mu.Lock()
	defer i.Held.mu.Unlock()
	if i.Held.lock != nil {
		return nil
	}
	lock, err := i.Shelf().Hold()
	i.Held.lock = lock
	return err
}

// sweepLater reports whether images are held. If so, they are swept when they are released.
func (i *Images) sweepLater() bool {
	i.Held.mu.Lock()
	defer i.Held.mu.Unlock()
	held := i.Held.lock != nil
	i.Held.stale = i.Held.stale || held
	return held
}

// sweepSoon sweeps the images now, or when they are released.
func (i *Images) sweepSoon() {
	if !i.sweepLater() {
		_, _ = i.Sweep()
	}
}

// Release releases the images when the sandbox is created or found. The caller does not hold the
// names lock.
func (i *Images) Release() {
	i.Held.mu.Lock()
	lock, stale := i.Held.lock, i.Held.stale
	i.Held.lock, i.Held.stale = nil, false
	i.Held.mu.Unlock()
	if lock != nil {
		lock.Unlock()
	}
	if stale {
		_, _ = i.Sweep()
	}
}
