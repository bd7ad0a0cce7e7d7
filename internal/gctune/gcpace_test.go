package gctune

import (
	"runtime"
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	at := time.Unix(0, 0)
	p := pace{set: usual}
	for i, c := range []struct {
		after time.Duration
		live  uint64
		want  int
	}{
		{time.Hour, 1 << 20, usual}, // the first one tells nothing
		{time.Hour, 1 << 20, usual},
		{time.Second, 1 << 20, seldom},
		{4 * time.Second, 1 << 20, seldom}, // as often as before, when they are four times as rare
		{5 * time.Second, 1 << 20, usual},
		{time.Millisecond, small, usual},
		{time.Millisecond, small - 1, seldom},
		{time.Millisecond, small, usual},
		{2 * time.Second, 0, usual},
	} {
		at = at.Add(c.after)
		if got := p.nextPercent(at, c.live); got != c.want {
			t.Errorf("collection %d: %d %%, want %d", i, got, c.want)
		}
	}
}

func TestEach(t *testing.T) {
	called := make(chan struct{}, 100)
	afterEachGC(func() { called <- struct{}{} })
	for range 3 {
		runtime.GC()
		<-called
	}
}
