//go:build race

package gateway

const bulk = 16 << 20 // this run checks the behaviour, not the heap: each MiB takes ten times as long

const atOnce = 20 // each may take 30 seconds, and on a busy machine many times that
