package once

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/store"
	"github.com/bothy-dev/bothy/spec"
)

func require(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestDo checks that a key has one effect, for its caller, its target and its body.
func TestDo(t *testing.T) {
	now := time.Now()
	r := &Records{Dir: filepath.Join(t.TempDir(), "answers"), Now: func() time.Time { return now }}
	var count int
	do := func() Answer { count++; return Answer{Status: 201, Body: []byte("made")} }
	q := Request{Caller: "c", Target: "POST /x", Key: "k", Body: []byte("{}")}
	for try := range 3 {
		a, repeated, err := r.Do(t.Context(), q, do)
		require(t, err)
		if a.Status != 201 || string(a.Body) != "made" || repeated != (try > 0) || count != 1 {
			t.Errorf("%d: %+v %v %d", try, a, repeated, count)
		}
	}
	other := q
	other.Body = []byte("{1}")
	if _, _, err := r.Do(t.Context(), other, do); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("%v", err)
	}
	for _, other := range []Request{{"d", q.Target, q.Key, q.Body}, {q.Caller, "POST /y", q.Key, q.Body}, {q.Caller, q.Target, "l", q.Body}} {
		if _, repeated, err := r.Do(t.Context(), other, do); err != nil || repeated {
			t.Errorf("%+v: %v", other, err)
		}
	}
	if count != 4 {
		t.Errorf("%d", count)
	}
	now = now.Add(Kept + time.Second)
	if _, repeated, err := r.Do(t.Context(), q, do); err != nil || repeated || count != 5 {
		t.Errorf("after its time: %v %v %d", repeated, err, count)
	}
	for _, key := range []string{"", "a b", "a\n", "ä"} {
		q.Key = key
		if _, _, err := r.Do(t.Context(), q, do); !errors.Is(err, spec.ErrUsage) {
			t.Errorf("%q: %v", key, err)
		}
	}
}

// TestCutOff checks that a request is not repeated if it is not known whether the first had an effect.
func TestCutOff(t *testing.T) {
	r := &Records{Dir: filepath.Join(t.TempDir(), "answers"), Now: time.Now}
	q := Request{Key: "k"}
	func() {
		defer func() { _ = recover() }()
		_, _, _ = r.Do(t.Context(), q, func() Answer { panic("killed") })
	}()
	if _, _, err := r.Do(t.Context(), q, func() Answer { return Answer{} }); !errors.Is(err, spec.ErrMayHaveRun) {
		t.Errorf("%v", err)
	}
}

// TestTogether checks that concurrent requests with one key have one effect.
func TestTogether(t *testing.T) {
	r := &Records{Dir: filepath.Join(t.TempDir(), "answers"), Now: time.Now}
	var count atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			a, _, err := r.Do(context.Background(), Request{Key: "k"}, func() Answer { count.Add(1); return Answer{Status: 200} })
			if err != nil || a.Status != 200 {
				t.Errorf("%+v %v", a, err)
			}
		})
	}
	all.Wait()
	if count.Load() != 1 {
		t.Errorf("%d", count.Load())
	}
}

// TestSweep checks that old records go, and records in use stay.
func TestSweep(t *testing.T) {
	now := time.Now()
	r := &Records{Dir: filepath.Join(t.TempDir(), "answers"), Now: func() time.Time { return now }}
	for _, key := range []string{"a", "b"} {
		_, _, err := r.Do(t.Context(), Request{Key: key}, func() Answer { return Answer{Status: 200} })
		require(t, err)
	}
	locks, err := filepath.Glob(filepath.Join(r.Dir, "*.lock"))
	require(t, err)
	held, err := store.WaitLock(locks[0])
	require(t, err)
	defer held.Unlock()
	now = now.Add(Kept + time.Minute)
	for range 100 * sweepOdds { // each has a chance to sweep
		r.sweepOld()
	}
	left, err := os.ReadDir(r.Dir)
	require(t, err)
	if len(left) != 2 {
		t.Errorf("%v", left)
	}
}
