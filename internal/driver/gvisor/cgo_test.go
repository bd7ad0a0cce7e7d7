//go:build cgo

package gvisor_test

// withCgo is true if this test binary was built with cgo, unlike bothy: gVisor's children would execute
// themselves once more and fail.
const withCgo = true
