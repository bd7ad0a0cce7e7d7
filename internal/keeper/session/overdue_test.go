package session

import (
	"testing"
	"time"
)

// TestOverdueIsSpoken checks that the rest of a loop's time, which has nanoseconds, is rounded for people.
func TestOverdueIsSpoken(t *testing.T) {
	for limit, want := range map[time.Duration]string{
		211694172 * time.Nanosecond:    "the command took longer than 212ms, and was ended",
		time.Minute + 1234567890:       "the command took longer than 1m1.2s, and was ended",
		time.Second:                    "the command took longer than 1s, and was ended",
		50 * time.Millisecond:          "the command took longer than 50ms, and was ended",
		time.Hour + 30*time.Nanosecond: "the command took longer than 1h0m0s, and was ended",
	} {
		var s Session
		if s.noteOverdue(limit); s.late.Error() != want {
			t.Errorf("after %s it says %q", limit, s.late)
		}
	}
}
