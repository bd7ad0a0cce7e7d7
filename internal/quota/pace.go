package quota

import (
	"context"
	"time"
)

// A walk that is paced works for a slice of the time and rests three times as long: on
// files that are in memory it takes a quarter of one processor.
const (
	workSlice = 5 * time.Millisecond
	restSlice = 3 * workSlice
)

// Gently gives what paces a [Meter], from now on.
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
