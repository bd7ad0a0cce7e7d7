package loop

import (
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/bothy-dev/bothy/internal/run"
)

// spoil makes the agent change protected files in some of its tries, and say that it is done.
func spoil(f *fake, when func(n int) bool) {
	f.work = func(n int) (Work, error) {
		f.spoilt = f.spoilt || when(n)
		return says(done)
	}
}

// TestGuard checks that protected files are restored before the next try, and before the loop ends
// without one.
func TestGuard(t *testing.T) {
	p := plan()
	p.Protect, p.Limits.MaxIterations = []string{"test"}, 3
	f := &fake{changes: always(1), green: always(true)}
	spoil(f, func(int) bool { return true })
	s, r := carry(t, p, f)
	if s.Status != run.Limited || !slices.Equal(f.putBack, []int{1, 2, 3}) || f.spoilt {
		t.Fatalf("it is %s (%s), put back behind %v", s.Status, s.Reason, f.putBack)
	}
	// After a rewind to a spoilt checkpoint, they are restored before the next try, too.
	_, err := rewind(t, p, f, r, nil, 2)
	must(t, err)
	spoil(f, func(int) bool { return false })
	if s = goOn(t.Context(), t, p, f, r); s.Status != run.Completed || s.Iteration != 3 || !slices.Equal(f.putBack, []int{1, 2, 3, 3}) {
		t.Errorf("it is %s (%s) after %d, put back behind %v", s.Status, s.Reason, s.Iteration, f.putBack)
	}
	if f.since[len(f.since)-1] == 0 {
		t.Errorf("the last was compared with nothing")
	}
	// After a rewind to before the first iteration, no file has to be restored.
	_, err = rewind(t, p, f, r, nil, 0)
	must(t, err)
	if s = goOn(t.Context(), t, p, f, r); s.Status != run.Completed || len(f.putBack) != 4 {
		t.Errorf("it is %s (%s), put back behind %v", s.Status, s.Reason, f.putBack)
	}
}

// TestGuardOfNothing checks that no file is checked as long as none was changed.
func TestGuardOfNothing(t *testing.T) {
	p := plan()
	p.Protect = []string{"test"}
	f := &fake{changes: always(1), green: func(n int) bool { return n > 2 }}
	spoil(f, func(int) bool { return false })
	if s, _ := carry(t, p, f); s.Status != run.Completed || len(f.putBack) > 0 {
		t.Errorf("it is %s (%s), put back behind %v", s.Status, s.Reason, f.putBack)
	}
}

// TestGuardKills checks the same if the process dies after any event.
func TestGuardKills(t *testing.T) {
	for behind := 1; ; behind++ {
		p := plan()
		p.Protect = []string{"test"}
		f := &fake{changes: always(1), green: always(true)}
		spoil(f, func(n int) bool { return n <= 2 })
		r, err := run.Create(filepath.Join(t.TempDir(), "runs"), "x", p)
		must(t, err)
		h, events, err := r.Host()
		must(t, err)
		n := 0
		l := &Loop{Plan: p, Run: r, Host: h, Runner: f, Tell: func(run.Event, *State) {
			if n++; n == behind {
				h.Close() // no event can be written any more
			}
		}}
		s, err := l.Carry(t.Context(), events)
		h.Close()
		died := err != nil
		if died {
			s = goOn(t.Context(), t, p, f, r)
		}
		if s.Status != run.Completed || f.spoilt || len(f.putBack) == 0 {
			t.Fatalf("behind event %d it is %s (%s), spoilt %t, put back behind %v", behind, s.Status, s.Reason, f.spoilt, f.putBack)
		}
		if !died {
			return
		}
	}
}

// TestTeamGuard checks that with several workers the files are restored where they were changed, and
// that no other worker gets the change.
func TestTeamGuard(t *testing.T) {
	p, r, d := hire(t, 2, "a", "b")
	p.Protect = []string{"test"}
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		tries := map[string]int{}
		b.work = func(_ *bench, _ Seat, id string, f files) (Work, error) {
			if tries[id]++; tries[id] == 1 {
				f["spoilt"] = id
			} else if _, is := f["spoilt"]; is {
				t.Errorf("%s is tried again with what was spoilt", id)
			}
			f[id] = "done"
			return says(done)
		}
		s, err := teamwork(t.Context(), t, p, b, r, d, nil)
		must(t, err)
		if _, is := b.main["spoilt"]; is || s.Status != run.Completed || len(s.Closed) != 2 || tries["bd-a"] != 2 || tries["bd-b"] != 2 {
			t.Errorf("it is %s (%s), with %v after %v", s.Status, s.Detail, b.main, tries)
		}
	})
}
