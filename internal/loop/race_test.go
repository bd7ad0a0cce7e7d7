//go:build race

package loop

// With the race detector everything takes ten times as long, so these numbers are smaller.
const (
	manyTasks = 40
	crashes   = 4
	everyNth  = 4
)
