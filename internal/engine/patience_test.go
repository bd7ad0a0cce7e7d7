package engine

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestPatiently checks that a caller that waits for long is told the reason.
func TestPatiently(t *testing.T) {
	e := newEngine(t)
	synctest.Test(t, func(t *testing.T) {
		said := []string{}
		e.Progress = func(text string) { said = append(said, text) }
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
