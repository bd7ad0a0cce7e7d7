package cli

import (
	"sync/atomic"
	"testing"
)

// Copies go beside what comes next, one at a time, and all of them before the loop ends.
func TestLeaving(t *testing.T) {
	var there, most, gone atomic.Int32
	l := newLeaving()
	hold := make(chan struct{})
	leave := func() {
		l.leave(func() {
			most.Store(max(most.Load(), there.Add(1)))
			<-hold
			there.Add(-1)
			gone.Add(1)
		})
	}
	leave() // comes back although it is not gone
	if gone.Load() != 0 {
		t.Error("it was waited for")
	}
	go func() {
		for range 3 {
			hold <- struct{}{}
		}
	}()
	leave()
	leave()
	l.wait()
	if gone.Load() != 3 || most.Load() != 1 {
		t.Errorf("%d are gone, up to %d went at once", gone.Load(), most.Load())
	}
	done := false
	(*leaving)(nil).leave(func() { done = true })
	(*leaving)(nil).wait()
	if !done {
		t.Error("without one it is not done at once")
	}
}
