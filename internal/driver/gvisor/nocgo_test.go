//go:build !cgo

package gvisor_test

const withCgo = false
