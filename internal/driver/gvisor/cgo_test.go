//go:build cgo

package gvisor_test

// withCgo says that this test binary, unlike bothy, was built with cgo: gVisor's
// children would execute themselves once more and lose their way.
const withCgo = true
