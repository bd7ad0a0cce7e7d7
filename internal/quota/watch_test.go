package quota

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestDue(t *testing.T) {
	const gib = 1 << 30
	allowed := Use{Bytes: 20 * gib, Files: 1_000_000}
	now := time.Unix(1_800_000_000, 0)
	whole := func(age, took time.Duration, used Use) Look {
		return Look{Use: used, Whole: true, Ended: now.Add(-age), Took: took}
	}
	some := Use{gib, 1000}
	for name, x := range map[string]struct {
		s     state
		idle  bool
		count bool
	}{
		"nothing is known":                  {state{}, true, true},
		"just counted":                      {state{last: whole(time.Millisecond, 0, some), fallen: allowed}, false, false},
		"nothing fell":                      {state{last: whole(time.Minute, 0, some)}, false, false},
		"less fell than is left":            {state{last: whole(time.Minute, 0, some), fallen: Use{Bytes: 19*gib - 1}}, false, false},
		"what is left fell":                 {state{last: whole(time.Minute, 0, some), fallen: Use{Bytes: 19 * gib}}, false, true},
		"what is left fell, of an idle one": {state{last: whole(time.Minute, 0, some), fallen: Use{Bytes: 19 * gib}}, true, true},
		"as many files":                     {state{last: whole(time.Minute, 0, some), fallen: Use{Files: 999_000}}, false, true},
		"the last one took long":            {state{last: whole(time.Minute, 20*time.Second, some), fallen: allowed}, false, false},
		"it took long, long ago":            {state{last: whole(90*time.Second, 20*time.Second, some), fallen: allowed}, false, true},
		"not whole":                         {state{last: Look{Ended: now.Add(-2 * time.Second)}}, true, true},
		"not whole, just now":               {state{last: Look{Ended: now.Add(-time.Millisecond)}}, true, false},
		"nobody knows what fell":            {state{last: whole(2*time.Second, 0, some), doubt: true}, true, true},
		"much is left, four minutes":        {state{last: whole(4*time.Minute, 0, some)}, false, false},
		"much is left, five minutes":        {state{last: whole(5*time.Minute, 0, some)}, false, true},
		"five minutes, idle":                {state{last: whole(5*time.Minute, 0, some)}, true, false},
		"little is left, one minute":        {state{last: whole(time.Minute, 0, Use{18 * gib, 1000})}, false, true},
		"few files are left, one minute":    {state{last: whole(time.Minute, 0, Use{gib, 900_000})}, false, true},
		"little is left, half a minute":     {state{last: whole(time.Minute/2, 0, Use{18 * gib, 1000})}, false, false},
		"the clock was set back":            {state{last: whole(-time.Hour, 0, some)}, false, true},
	} {
		x.s.allowed = allowed
		if got := x.s.isCountDue(now, func() bool { return !x.idle }); got != x.count {
			t.Errorf("%s: due is %v", name, got)
		}
	}
}

// disk is a file system with a writer, and a tree on it.
type disk struct {
	mu         sync.Mutex // guards the fields below: the test's fake clock orders nothing
	free, tree Use
	counts     int
	takes      time.Duration
	broken     bool
	blind      bool
}

func (d *disk) watch(told func(Look) bool) *Watch {
	return &Watch{
		Allowed: Use{100, 100},
		Free: func() (Use, error) {
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.broken {
				return Use{}, errors.New("no such disk")
			}
			return d.free, nil
		},
		Count: func(ctx context.Context) (Use, bool) {
			d.mu.Lock()
			d.counts++
			d.mu.Unlock()
			select {
			case <-ctx.Done():
				return Use{}, false
			case <-time.After(d.takes):
			}
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.tree, !d.blind
		},
		Worked: func() bool { return true },
		Told:   told,
	}
}

// write fills the tree.
func (d *disk) write(u Use) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tree, d.free = d.tree.Plus(u), d.free.Minus(u)
}

// others changes the free space outside of the tree.
func (d *disk) others(u Use) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.free = d.free.Minus(u)
}

func (d *disk) counted() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.counts
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{free: Use{1000, 1000}, takes: 10 * time.Millisecond}
		var last atomic.Pointer[Look]
		ended := make(chan struct{})
		w := d.watch(func(l Look) bool {
			last.Store(&l)
			return l.Use.Within(Use{100, 100})
		})
		go func() { defer close(ended); w.Run(t.Context(), Look{}) }()
		after := func(pause time.Duration, counts int, what string) {
			t.Helper()
			time.Sleep(pause)
			synctest.Wait()
			if n := d.counted(); n != counts {
				t.Errorf("%s: counted %d times, not %d", what, n, counts)
			}
		}
		after(1100*time.Millisecond, 1, "at the beginning")
		d.write(Use{40, 1})
		after(10*time.Second, 1, "less than is left")
		d.others(Use{-500, 0})
		after(2*time.Second, 1, "others remove files")
		d.write(Use{50, 1})
		after(2*time.Second, 1, "still less than is left")
		d.others(Use{10, 0})
		after(2*time.Second, 2, "what is left, whoever wrote it")
		if got := last.Load().Use; got != (Use{90, 2}) {
			t.Errorf("counted %+v", got)
		}
		after(time.Minute+2*time.Second, 3, "a minute, with little left")
		d.write(Use{11, 0})
		after(2*time.Second, 4, "too much")
		select {
		case <-ended:
		default:
			t.Error("it goes on although nobody wants it to")
		}
	})
}

// TestWatchMeanwhile checks that writes during a count lead to another count at once.
func TestWatchMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		d := &disk{free: Use{1000, 1000}, takes: 5 * time.Second}
		ended := make(chan struct{})
		go func() { defer close(ended); d.watch(func(Look) bool { return true }).Run(ctx, Look{}) }()
		time.Sleep(2 * time.Second)
		d.others(Use{500, 0})
		time.Sleep(4500 * time.Millisecond)
		synctest.Wait()
		if n := d.counted(); n != 1 {
			t.Errorf("counted %d times", n)
		}
		time.Sleep(20 * time.Second) // four times as long as it took
		synctest.Wait()
		if n := d.counted(); n != 2 {
			t.Errorf("counted %d times", n)
		}
		cancel() // in the middle of a count
		<-ended
	})
}

// TestWatchBlind checks that counts are repeated if the free space is unknown, or if a
// count is not whole. It also checks the number of failures in a row.
func TestWatchBlind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{free: Use{1000, 1000}, blind: true}
		var blind []int
		w := d.watch(func(l Look) bool {
			blind = append(blind, l.Blind)
			d.mu.Lock()
			d.blind = len(blind) < 3
			d.mu.Unlock()
			return len(blind) < 5
		})
		d.broken = true
		w.Run(t.Context(), Look{})
		if want := []int{1, 2, 3, 0, 0}; len(blind) != len(want) || blind[2] != 3 || blind[3] != 0 {
			t.Errorf("in vain: %v", blind)
		}
	})
}
