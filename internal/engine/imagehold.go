package engine

import (
	"sync"

	"github.com/bothy-dev/bothy/internal/store"
)

// imageHold keeps images from being removed while a sandbox with one is about to be created.
type imageHold struct {
	mu    sync.Mutex
	lock  *store.Lock
	stale bool // an image may have lost its name since
}

// HoldImages keeps all images until a sandbox is created or found, or until this process ends.
// Callers call it before they look for the image.
func (e *Engine) HoldImages() error {
	e.hold.mu.Lock()
	defer e.hold.mu.Unlock()
	if e.hold.lock != nil {
		return nil
	}
	lock, err := e.Images().Hold()
	e.hold.lock = lock
	return err
}

// sweepLater reports whether images are held. If so, they are swept when they are released.
func (e *Engine) sweepLater() bool {
	e.hold.mu.Lock()
	defer e.hold.mu.Unlock()
	held := e.hold.lock != nil
	e.hold.stale = e.hold.stale || held
	return held
}

// sweepSoon sweeps the images now, or when they are released.
func (e *Engine) sweepSoon() {
	if !e.sweepLater() {
		_, _ = e.SweepImages()
	}
}

// releaseImages releases the images. The caller does not hold the names lock.
func (e *Engine) releaseImages() {
	e.hold.mu.Lock()
	lock, stale := e.hold.lock, e.hold.stale
	e.hold.lock, e.hold.stale = nil, false
	e.hold.mu.Unlock()
	if lock != nil {
		lock.Unlock()
	}
	if stale {
		_, _ = e.SweepImages()
	}
}
