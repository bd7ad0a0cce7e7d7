package policy

import "testing"

// For tests outside of the package: random policies and questions.
var (
	Always       = func(t *testing.T, property func(*testing.T, choice)) { t.Helper(); always(t, property) }
	RandomInputs = randomInputs
	MustCompile  = must
	AskedOf      = asked
)

// Choice makes the random choices of a test.
type Choice = choice

// Room returns the bytes that a budget allows.
func (b *Budget) Room() int64 { return b.roomFor() }
