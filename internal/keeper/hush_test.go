package keeper

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestHush checks that a program waits when it is silent for a while, until it prints or ends.
func TestHush(t *testing.T) {
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
	h := newHush(50*time.Millisecond, func(since *time.Time) { told <- since })
	h.heard()
	next("silence", true)
	h.heard()
	next("a word", false)
	h.heard()
	next("silence again", true)
	h.end()
	next("the end", false)
	h.heard()
	h.silent()
	select {
	case since := <-told:
		t.Errorf("after the end: %v", since)
	default:
	}
}

// TestHushOfOneWhoTalks checks that a program does not wait as long as it prints.
func TestHushOfOneWhoTalks(t *testing.T) {
	h := newHush(time.Hour, func(since *time.Time) { t.Errorf("told: %v", since) })
	for range 100 {
		h.heard()
	}
	h.silent() // the timer fires early
	h.end()
}

// TestHushOfOneWhoStarts checks that a program counts as starting until its first output, however late.
func TestHushOfOneWhoStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []*time.Time
		h := newHush(time.Second, func(since *time.Time) { told = append(told, since) })
		time.Sleep(time.Hour)
		synctest.Wait()
		if told != nil {
			t.Errorf("told before its first word: %v", told)
		}
		h.heard()
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(told) != 1 || told[0] == nil {
			t.Errorf("told after it: %v", told)
		}
		h.end()
	})
}
