// Package gctune lets a busy process with a small heap collect garbage less often.
//
// By default Go collects when the heap has doubled, but not below 4 MB. A process that has 2 MB and
// makes 60 a second collects 15 times a second, which costs it a twentieth of its time. While
// collections are that frequent and the heap is small, this package makes them four times less frequent.
// Otherwise Go's default applies. So an idle process uses no more memory than before.
package gctune

import (
	"runtime"
	"runtime/debug"
	"time"
)

const (
	often  = time.Second // this interval between collections, or a shorter one, is often
	small  = 8 << 20     // a heap smaller than this after a collection, in bytes
	usual  = 100         // percent by which a heap grows until it is collected
	seldom = 400
)

// pace decides after each collection when the next is due.
type pace struct {
	last time.Time // time of the last one
	set  int       // percent
}

// nextPercent returns the percentage after a collection that left live bytes.
func (p *pace) nextPercent(now time.Time, live uint64) int {
	busy := !p.last.IsZero() && now.Sub(p.last) <= time.Duration(p.set/usual)*often
	p.last, p.set = now, usual
	if busy && live < small {
		p.set = seldom
	}
	return p.set
}

// Follow adjusts collections from now on. It is for programs that leave GOGC and [debug.SetGCPercent]
// alone, and is called once.
func Follow() {
	p := &pace{set: usual}
	var m runtime.MemStats // runtime/metrics has an init function that every start would pay for
	afterEachGC(func() {
		runtime.ReadMemStats(&m)
		before := p.set
		live := m.NextGC * usual / uint64(usual+before) // or less: the heap has a minimum size
		if n := p.nextPercent(time.Now(), live); n != before {
			debug.SetGCPercent(n)
		}
	})
}

// afterEachGC calls f after every collection, never twice at once.
func afterEachGC(f func()) {
	type mark struct{ _ [16]byte } // not a tiny allocation, which shares its block with others
	var again func(int)
	again = func(int) {
		f()
		runtime.AddCleanup(new(mark), again, 0)
	}
	runtime.AddCleanup(new(mark), again, 0)
}
