package session

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestIdle checks that a program waits when it is silent for a while, until it prints or ends.
func TestIdle(t *testing.T) {
	told := make(chan *time.Time, 10)
	next := func(what string, waiting bool) {
		t.Helper()
		select {
		case since := <-told:
			if (since != nil) != waiting {
				t.Errorf("%s: %v", what, since)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: nothing is told", what)
		}
	}
	i := newIdle(50*time.Millisecond, func(since *time.Time) { told <- since })
	i.noteOutput()
	next("silence", true)
	i.noteOutput()
	next("a word", false)
	i.noteOutput()
	next("silence again", true)
	i.stopTimer()
	next("the end", false)
	i.noteOutput()
	i.checkSilence()
	select {
	case since := <-told:
		t.Errorf("after the end: %v", since)
	default:
	}
}

// TestIdleWhilePrinting checks that a program does not wait as long as it prints.
func TestIdleWhilePrinting(t *testing.T) {
	i := newIdle(time.Hour, func(since *time.Time) { t.Errorf("told: %v", since) })
	for range 100 {
		i.noteOutput()
	}
	i.checkSilence() // the timer fires early
	i.stopTimer()
}

// TestIdleBeforeFirstOutput checks that a program counts as starting until its first output, however late.
func TestIdleBeforeFirstOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []*time.Time
		i := newIdle(time.Second, func(since *time.Time) { told = append(told, since) })
		time.Sleep(time.Hour)
		synctest.Wait()
		if told != nil {
			t.Errorf("told before its first word: %v", told)
		}
		i.noteOutput()
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(told) != 1 || told[0] == nil {
			t.Errorf("told after it: %v", told)
		}
		i.stopTimer()
	})
}
