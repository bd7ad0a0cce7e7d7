package inspect

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		a := alarm{f: func() { calls++ }}
		after := func(d time.Duration, want int) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if calls != want {
				t.Fatalf("it was called %d times, not %d", calls, want)
			}
		}
		a.set(time.Second)
		after(999*time.Millisecond, 0)
		after(time.Millisecond, 1)
		if a.stop() {
			t.Fatal("it says that it has prevented what was over")
		}
		after(time.Hour, 1)

		a.set(time.Second) // put off
		after(900*time.Millisecond, 1)
		a.set(time.Second)
		after(999*time.Millisecond, 1)
		after(time.Millisecond, 2)

		a.set(time.Hour) // brought forward
		a.set(time.Second)
		after(time.Second, 3)
		after(2*time.Hour, 3)

		a.set(time.Second)
		if !a.stop() || a.stop() {
			t.Fatal("once it is prevented, and once only")
		}
		after(time.Hour, 3)

		a.set(time.Minute) // stopped, and set to earlier than its timer goes off
		a.stop()
		a.set(time.Second)
		after(time.Second, 4)
		after(time.Hour, 4)

		a.set(time.Second)
		a.end()
		after(time.Hour, 4)
	})
}
