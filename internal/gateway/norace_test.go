//go:build !race

package gateway

const bulk = 128 << 20

const atOnce = 60 // who send large calls at once
