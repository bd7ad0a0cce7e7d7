package held

import (
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"
)

const (
	// aftermath is how long after the end of work memory is given back. By then the end is logged,
	// and a program that goes on does not pay for it each time.
	aftermath = 5 * time.Second
	// spare is how much of the heap may stay resident, in bytes: a keeper with some traffic needs
	// about as much.
	spare = 24 << 20
)

var isDue atomic.Bool // memory is about to be given back

// GiveBack returns unused memory of the process to the host, a while from now. It is called when
// connections end, and when requests end that held much. The collector would not run soon: a keeper
// makes hardly any garbage while its sandbox is quiet.
func GiveBack() {
	if isDue.CompareAndSwap(false, true) {
		time.AfterFunc(aftermath, giveBack)
	}
}

// giveBack repeats that until it has no more use: some of the ended work may still be finishing.
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

// resident returns how much of the host's memory the heap and the stacks have.
func resident() uint64 {
	var m runtime.MemStats // runtime/metrics has an init function that every start would pay for
	runtime.ReadMemStats(&m)
	return m.HeapSys - m.HeapReleased + m.StackSys
}
