package taskserver

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/spec"
)

// slow is a store with many tasks: each change and each look takes that long.
type slow struct {
	task.Store
	each   time.Duration
	late   time.Duration // delay between the read and the change
	hard   time.Duration // duration of a change
	held   time.Duration // total time of changes
	looked time.Duration // total time of looks
}

func (s *slow) View(ctx context.Context) (*task.Graph, error) {
	time.Sleep(s.each)
	s.looked += s.each
	return s.Store.View(ctx)
}

func (s *slow) Change(ctx context.Context, f func(*task.Graph) error) error {
	time.Sleep(s.each)
	s.held += s.each + s.late + s.hard
	return s.Store.Change(ctx, func(g *task.Graph) error {
		time.Sleep(s.late)
		defer time.Sleep(s.hard)
		return f(g)
	})
}

// TestPace checks that others can change tasks nearly all of the time, however much a sandbox changes,
// even in vain. It is told when it may change tasks again.
func TestPace(t *testing.T) {
	for _, each := range []time.Duration{20 * time.Millisecond, 300 * time.Millisecond, 800 * time.Millisecond, 2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, spec.TasksAdd)
			store := &slow{Store: s.Store, each: each}
			s.Store = store
			const long = 2 * time.Minute
			refused := 0
			for began := time.Now(); time.Since(began) < long; time.Sleep(20 * time.Millisecond) {
				r := s.runCommand(t.Context(), []string{"create", "x", "--parent", "none"})
				if r.Code == spec.ExitConflict && strings.Contains(r.Err, "again in ") {
					refused++
				} else if r.Code != spec.ExitNotFound {
					t.Fatalf("%v: %+v", each, r)
				}
			}
			if part := float64(store.held-changing.burst) / float64(long); part > 0.15 {
				t.Errorf("with changes of %v it had all tasks to itself for %v of %v, %d times refused", each, store.held, long, refused)
			}
			if store.held < long/20 {
				t.Errorf("with changes of %v it came to %v", each, store.held)
			}
		})
	}
}

// TestPaceOfWork checks that a moderate client notices nothing, and that a refused client may continue
// after the time that it was told.
func TestPaceOfWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, spec.TasksAdd)
		store := &slow{Store: s.Store, each: 30 * time.Millisecond}
		s.Store = store
		began := time.Now()
		for n := range 30 {
			s.must(t, 0, "create", fmt.Sprint("task ", n))
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("30 tasks took %v", took)
		}
		time.Sleep(time.Minute)
		store.each = 900 * time.Millisecond
		s.must(t, 0, "create", "large")
		s.must(t, 0, "create", "larger")
		before := s.written
		out := s.must(t, spec.ExitConflict, "create", "too soon")
		_, text, _ := strings.Cut(strings.TrimSpace(out), "again in ")
		again, err := time.ParseDuration(text)
		if err != nil || s.written != before {
			t.Fatalf("%q, %d bytes: %v", out, s.written-before, err)
		}
		s.must(t, 0, "list") // a look blocks no other, and has its own time
		time.Sleep(again)
		s.must(t, 0, "create", "later")
	})
}

// TestPaceOfHardChange checks that a slow change counts for its whole duration.
func TestPaceOfHardChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, spec.TasksAdd)
		s.Store = &slow{Store: s.Store, hard: 5 * time.Minute}
		s.must(t, 0, "create", "hard")
		time.Sleep(40 * time.Minute)
		if out := s.must(t, spec.ExitConflict, "create", "harder"); !strings.Contains(out, "again in 4m") {
			t.Errorf("%q", out)
		}
		time.Sleep(5 * time.Minute)
		s.must(t, 0, "create", "harder")
	})
}

// TestPaceOfLooks checks that looks, of any kind, make the host work only for a part of the time.
func TestPaceOfLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, spec.TasksWrite)
		s.must(t, 0, "create", "x")
		store := &slow{Store: s.Store, each: 700 * time.Millisecond}
		s.Store = store
		const long = 2 * time.Minute
		ways := [][]string{{"ready"}, {"list"}, {"blocked"}, {"prime"}, {"show", "none"}}
		refused := 0
		for n, began := 0, time.Now(); time.Since(began) < long; n++ {
			if r := s.runCommand(t.Context(), ways[n%len(ways)]); r.Code == spec.ExitConflict {
				refused++
			}
			time.Sleep(20 * time.Millisecond)
		}
		if part := float64(store.looked-looking.burst) / float64(long); part > 0.3 || part < 0.2 {
			t.Errorf("it had the host work for %v of %v, %d times refused", store.looked, long, refused)
		}
		s.must(t, 0, "create", "y") // changes have a time of their own
	})
}

// TestCommandInTime checks that a command has no effect after its deadline.
func TestCommandInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, spec.TasksWrite)
		id, _, _ := strings.Cut(s.must(t, 0, "create", "x"), " ")
		s.Store = &slow{Store: s.Store, late: time.Minute}
		for _, name := range []string{"close", "reopen"} {
			if r := s.runCommand(t.Context(), []string{name, id}); r.Code == 0 {
				t.Errorf("%s: %+v", name, r)
			}
			time.Sleep(time.Hour)
		}
		if out := s.must(t, 0, "list"); !strings.Contains(out, " open ") {
			t.Errorf("%s", out)
		}
	})
}
