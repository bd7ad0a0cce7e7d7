//go:build !race

package gateway

const bulk = 128 << 20
