package quota

import (
	"context"
	"time"
)

// A paced walk works for a slice of time and rests three times as long: on files in memory
// it takes a quarter of one processor.
const (
	workSlice = 5 * time.Millisecond
	restSlice = 3 * workSlice
)

// Gently returns a Pace for a [Meter], which starts now.
func Gently() func(context.Context) error {
	began := time.Now()
	return func(ctx context.Context) error {
		if time.Since(began) < workSlice {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(restSlice):
		}
		began = time.Now()
		return nil
	}
}
