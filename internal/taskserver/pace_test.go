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

// slow is a store with much in it: a change has it for so long.
type slow struct {
	task.Store
	each time.Duration
	held time.Duration // in all
}

func (s *slow) Change(ctx context.Context, f func(*task.Graph) error) error {
	time.Sleep(s.each)
	s.held += s.each
	return s.Store.Change(ctx, f)
}

// However much a sandbox wants to change, also to no end, others can change theirs nearly all of
// the time. It is told when it may again.
func TestPace(t *testing.T) {
	for _, each := range []time.Duration{20 * time.Millisecond, 300 * time.Millisecond, 800 * time.Millisecond, 2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, spec.TasksAdd)
			store := &slow{Store: s.Store, each: each}
			s.Store = store
			const long = 2 * time.Minute
			refused := 0
			for began := time.Now(); time.Since(began) < long; time.Sleep(20 * time.Millisecond) {
				r := s.run(t.Context(), []string{"create", "x", "--parent", "none"})
				if r.Code == spec.ExitConflict && strings.Contains(r.Err, "again in ") {
					refused++
				} else if r.Code != spec.ExitNotFound {
					t.Fatalf("%v: %+v", each, r)
				}
			}
			if part := float64(store.held-burst) / float64(long); part > 0.15 {
				t.Errorf("with changes of %v it had all tasks to itself for %v of %v, %d times refused", each, store.held, long, refused)
			}
			if store.held < long/20 {
				t.Errorf("with changes of %v it came to %v", each, store.held)
			}
		})
	}
}

// Who does not overdo it notices nothing, and who was refused may again when it was told.
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
		s.must(t, 0, "list") // who only looks is in nobody's way
		time.Sleep(again)
		s.must(t, 0, "create", "later")
	})
}
