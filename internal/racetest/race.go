//go:build race

package racetest

const detects = true
