//go:build !race

package gateway

const bulk = 128 << 20

const atOnce = 60 // clients that send large calls at once
