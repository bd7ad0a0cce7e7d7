//go:build race

package gateway

const bulk = 16 << 20 // what it does is looked at here, not the heap: each MiB takes ten times as long

const atOnce = 20 // each may take 30 seconds, and on a busy machine many times as many would
