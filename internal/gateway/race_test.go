//go:build race

package gateway

const bulk = 16 << 20 // what it does is looked at here, not the heap: each MiB takes ten times as long
