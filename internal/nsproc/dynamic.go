//go:build cgo

package nsproc

// Static is false: a program built with cgo needs the C libraries to start.
const Static = false
