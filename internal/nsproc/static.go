//go:build !cgo

package nsproc

// Static tells whether this program can be started where there are no libraries: behind
// the wall its processes have an empty directory as their root.
const Static = true
