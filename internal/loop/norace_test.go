//go:build !race

package loop

const (
	manyTasks = 100 // tasks to work at
	crashes   = 12  // teams that are cut off again and again
	everyNth  = 1   // event is one at which a team is cut off
)
