package held

import (
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"
)

const (
	// aftermath is how long after work has ended memory is given back: what was held for it is
	// logged by now, and a program that goes on does not pay for it each time.
	aftermath = 5 * time.Second
	// spare is how much of the heap may stay resident, in bytes: a keeper with some traffic needs
	// about as much.
	spare = 24 << 20
)

var isDue atomic.Bool // memory is about to be given back

// GiveBack returns memory to the host that the process does not use any more, a while from now.
// It is called when connections end, and when requests do that held much: the collector would
// not come soon, for a keeper makes hardly any garbage when its sandbox is quiet.
func GiveBack() {
	if isDue.CompareAndSwap(false, true) {
		time.AfterFunc(aftermath, giveBack)
	}
}

// giveBack does so until that is of no more use: some of what has ended may still be under way.
func giveBack() {
	isDue.Store(false)
	before := resident()
	if before <= spare {
		return
	}
	debug.FreeOSMemory()
	if resident() < before-before/8 {
		GiveBack()
	}
}

// resident is how much memory of the host the heap and the stacks have.
func resident() uint64 {
	var m runtime.MemStats // runtime/metrics has an init function that every start would pay for
	runtime.ReadMemStats(&m)
	return m.HeapSys - m.HeapReleased + m.StackSys
}
