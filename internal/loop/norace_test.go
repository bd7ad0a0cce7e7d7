//go:build !race

package loop

const (
	manyTasks = 100 // tasks to work at
	crashes   = 12  // teams that are stopped again and again
	everyNth  = 1   // stop a team at every n-th event
)
