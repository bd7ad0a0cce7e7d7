package gvisor

import (
	"sync"
	_ "unsafe" // for go:linkname
)

// traceOnce is what makes gVisor's list of trace points, once.
//
//go:linkname traceOnce gvisor.dev/gvisor/pkg/sentry/seccheck.initOnce
var traceOnce sync.Once

// noTracePoints leaves a sentry without the list of a thousand points at which
// one could have it traced: it takes a twentieth of a start to make, and
// nobody asks for a trace. Whoever does one day removes this.
func noTracePoints() { traceOnce.Do(func() {}) }
