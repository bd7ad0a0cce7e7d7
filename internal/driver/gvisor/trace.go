package gvisor

import (
	"sync"
	_ "unsafe" // for go:linkname
)

// traceOnce guards the creation of gVisor's list of trace points.
//
//go:linkname traceOnce gvisor.dev/gvisor/pkg/sentry/seccheck.initOnce
var traceOnce sync.Once

// noTracePoints skips the sentry's list of a thousand trace points. Making it takes a twentieth of
// a start, and Bothy never traces. Remove this to use a trace.
func noTracePoints() { traceOnce.Do(func() {}) }
