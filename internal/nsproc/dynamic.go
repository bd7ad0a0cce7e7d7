//go:build cgo

package nsproc

// Static is false: built with cgo, the program needs the libraries of C to start.
const Static = false
