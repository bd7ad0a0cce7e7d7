package alarm

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		a := Alarm{Call: func() { calls.Add(1) }}
		after := func(d time.Duration, want int64) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if got := calls.Load(); got != want {
				t.Fatalf("it was called %d times, not %d", got, want)
			}
		}
		a.Set(time.Second)
		after(999*time.Millisecond, 0)
		after(time.Millisecond, 1)
		if a.Stop() {
			t.Fatal("it says that it has prevented what was over")
		}
		after(time.Hour, 1)

		a.Set(time.Second) // put off
		after(900*time.Millisecond, 1)
		a.Set(time.Second)
		after(999*time.Millisecond, 1)
		after(time.Millisecond, 2)

		a.Set(time.Hour) // brought forward
		a.Set(time.Second)
		after(time.Second, 3)
		after(2*time.Hour, 3)

		a.Set(time.Second)
		if !a.Stop() || a.Stop() {
			t.Fatal("once it is prevented, and once only")
		}
		after(time.Hour, 3)

		a.Set(time.Minute) // stopped, and set to earlier than its timer goes off
		a.Stop()
		a.Set(time.Second)
		after(time.Second, 4)
		after(time.Hour, 4)

		a.Set(time.Second)
		a.End()
		after(time.Hour, 4)
	})
}
