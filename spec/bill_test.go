package spec

import (
	"errors"
	"math"
	"testing"
)

// TestBudgetCheck checks that only amounts are accepted, and no other values of a float64.
func TestBudgetCheck(t *testing.T) {
	for _, b := range []Budget{{}, {Tokens: 1, USD: 0.5}, {USD: math.MaxFloat64}} {
		if err := b.Check(); err != nil {
			t.Errorf("%v: %v", b, err)
		}
	}
	for _, b := range []Budget{{Tokens: -1}, {USD: -0.1}, {USD: math.NaN()}, {USD: math.Inf(1)}, {USD: math.Inf(-1)}} {
		if err := b.Check(); !errors.Is(err, ErrUsage) {
			t.Errorf("%v: %v", b, err)
		}
	}
}
