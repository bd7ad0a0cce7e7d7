//go:build !cgo

package nsproc

// Static reports whether this program can start without shared libraries: behind the wall its
// processes have an empty root directory.
const Static = true
