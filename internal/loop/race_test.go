//go:build race

package loop

// Where all takes ten times as long, the same happens fewer times.
const (
	manyTasks = 40
	crashes   = 4
	everyNth  = 4
)
