package flow

import (
	"math/rand/v2"
	"time"
)

// until returns a time that is over at once.
func (Job) until() time.Time { return time.Now() }

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(3, seed)) }
