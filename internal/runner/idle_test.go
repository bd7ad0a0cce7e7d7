package runner

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestPulse checks that only an agent without a sign of life is stopped. Signs are its output, the
// processor time of its processes, and the traffic of its connections.
func TestPulse(t *testing.T) {
	const limit = time.Minute
	down := errors.New("it does not run")
	for name, c := range map[string]struct {
		look  func(since time.Duration) (activity, error)
		print bool
		ended time.Duration // 0: the agent has not ended
	}{
		"nothing at all":       {look: func(time.Duration) (activity, error) { return activity{}, nil }, ended: limit},
		"a runtime that waits": {look: func(d time.Duration) (activity, error) { return activity{cpu: d / 100, open: 1, carried: 9}, nil }, ended: limit + pulsePoll},
		"a keeper that hangs":  {look: func(time.Duration) (activity, error) { return activity{}, down }, ended: limit},
		"it prints":            {look: func(time.Duration) (activity, error) { return activity{}, nil }, print: true},
		"it computes":          {look: func(d time.Duration) (activity, error) { return activity{cpu: d / 5}, nil }},
		"a model answers":      {look: func(d time.Duration) (activity, error) { return activity{open: 1, carried: int64(d)}, nil }},
		"one asks after the other": {look: func(d time.Duration) (activity, error) {
			return activity{open: int(d/(30*time.Second)) % 2}, nil
		}},
		"it stops after a while": {look: func(d time.Duration) (activity, error) {
			return activity{cpu: min(d, 2*time.Minute)}, nil
		}, ended: 3 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				p := &idleWatch{limit: limit, look: func(context.Context) (activity, error) { return c.look(time.Since(began)) }}
				ctx, giveUp := context.WithCancelCause(t.Context())
				defer time.AfterFunc(10*time.Minute, func() { giveUp(nil) }).Stop()
				var printing sync.WaitGroup
				defer printing.Wait()
				if c.print {
					printing.Go(func() {
						for ctx.Err() == nil {
							_, _ = p.Write([]byte("x"))
							time.Sleep(limit / 2)
						}
					})
				}
				p.watchAgent(ctx, giveUp)
				quiet, lasted := (*idleError)(nil), time.Since(began)
				if errors.As(context.Cause(ctx), &quiet) != (c.ended > 0) || c.ended > 0 && lasted != c.ended {
					t.Errorf("after %s: %v", lasted, context.Cause(ctx))
				}
				giveUp(nil)
			})
		})
	}
}
