//go:build !race

package racetest

const detects = false
