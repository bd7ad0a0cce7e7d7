package loop

import (
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/run"
)

// crowd returns a bench whose workers all append to one file, so that their results cannot be merged. It
// records which workers work at the same time.
func crowd(t *testing.T, takes func() time.Duration) (b *bench, tries map[string]int) {
	b, tries = newBench(t), map[string]int{}
	var mu sync.Mutex
	b.takes = func(Seat) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return takes()
	}
	b.work = func(b *bench, _ Seat, id string, f files) (Work, error) {
		tries[id]++
		if last := b.prompts[len(b.prompts)-1]; strings.Contains(last, "no other worker has a task") && strings.Contains(last, "# "+id+":") && len(b.at) > 1 {
			t.Errorf("%s is done beside others: %v", id, b.at)
		}
		f["one"] += id + " "
		return says(done)
	}
	return b, tries
}

// TestTeamCrowd checks that tasks that all change one file are all done, each once, even with few tries.
// Being overtaken by others does not count as a try, and after the second time a task is done alone.
func TestTeamCrowd(t *testing.T) {
	p, r, d := hire(t, 4, "a", "b", "c", "d", "e", "f", "g", "h")
	p.Tasks.Tries = 1
	synctest.Test(t, func(t *testing.T) {
		n := time.Duration(0)
		b, tries := crowd(t, func() time.Duration { n++; return n * time.Second })
		s, err := teamwork(t.Context(), t, p, b, r, d, nil)
		must(t, err)
		if s.Status != run.Completed || s.Reason != reasonDone || len(s.Closed) != 8 || len(s.Left) > 0 {
			t.Errorf("it is %s (%s): %s, %v closed, %v left", s.Status, s.Reason, s.Detail, s.Closed, s.Left)
		}
		everyOnce(t, b, "abcdefgh")
		alone := 0
		for id, n := range tries {
			if n > maxOutrun+1 {
				t.Errorf("%s was tried %d times", id, n)
			}
			if n == maxOutrun+1 {
				alone++
			}
		}
		if alone == 0 {
			t.Errorf("none was ever alone: %v", tries)
		}
		events, err := r.Events()
		must(t, err)
		again, err := Fold(events)
		if must(t, err); len(again.alone) > 0 || !maps.Equal(again.outrun, s.outrun) {
			t.Errorf("folded anew %v are to be alone, and %v were outrun", again.alone, again.outrun)
		}
	})
}

// everyOnce checks that each task has added to the file once.
func everyOnce(t *testing.T, b *bench, ids string) {
	t.Helper()
	for _, id := range ids {
		if n := strings.Count(b.main["one"], "bd-"+string(id)+" "); n != 1 {
			t.Errorf("bd-%c is there %d times: %q", id, n, b.main["one"])
		}
	}
}

// TestTeamCrowdKills checks the same if the process dies after any event, again and again.
func TestTeamCrowdKills(t *testing.T) {
	seed := rand.Uint64()
	for round := range uint64(crashes) {
		rnd := rand.New(rand.NewPCG(seed, round))
		p, r, d := hire(t, 2+rnd.IntN(3), "a", "b", "c", "d", "e", "f")
		p.Tasks.Tries, p.Stall = 1, loopplan.Stall{}
		synctest.Test(t, func(t *testing.T) {
			b, _ := crowd(t, func() time.Duration { return time.Duration(1+rnd.IntN(600)) * time.Second })
			b.work = func(_ *bench, _ Seat, id string, f files) (Work, error) {
				if !strings.Contains(f["one"], id+" ") { // it continues with the files of a dead process
					f["one"] += id + " "
				}
				return says(done)
			}
			var s *State
			for try := 0; s == nil || !s.Final(); try++ {
				if try > 200 {
					t.Fatalf("seed %d, round %d: it comes to no end: %+v", seed, round, s)
				}
				left, err := 1+rnd.IntN(40), error(nil)
				if s, err = teamwork(t.Context(), t, p, b, r, d, func(run.Event) bool { left--; return left == 0 }); err != nil {
					s = nil // its old state does not match the events
				}
			}
			if s.Status != run.Completed || s.Reason != reasonDone || len(s.Closed) != 6 {
				t.Errorf("seed %d, round %d: it is %s (%s): %s, %v closed, %v left", seed, round, s.Status, s.Reason, s.Detail, s.Closed, s.Left)
			}
			everyOnce(t, b, "abcdef")
		})
	}
}
