package keeperclient

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestPatiently checks that a caller that waits for long is told the reason.
func TestPatiently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := []string{}
		e := Keepers{Say: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }}
		e.Patiently("too short %d", 1)()
		done := e.Patiently("waiting for %s", "it")
		time.Sleep(waitNotice + time.Second)
		synctest.Wait()
		done()
		if !slices.Equal(said, []string{"waiting for it"}) {
			t.Errorf("%q is said", said)
		}
	})
}
