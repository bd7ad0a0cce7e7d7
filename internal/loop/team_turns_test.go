package loop

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/loop/taskqueue"
	"github.com/bothy-dev/bothy/internal/racetest"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/task"
)

// inTurns makes a loop in which two agents take turns for each of two workers, and a task takes
// three iterations: each adds a letter for its agent.
func inTurns(t *testing.T, titles ...string) (*loopplan.Plan, *run.Run, *taskqueue.Queue, func(*testing.T) *bench) {
	t.Helper()
	p, r, d := hire(t, 2, titles...)
	p.Rotate([]loopplan.Turn{{Agent: "one", Model: "big"}, {Agent: "two", Model: "small"}})
	p.Tasks.Tries = 9
	must(t, p.Check())
	return p, r, d, func(t *testing.T) *bench {
		b := newBench(t)
		b.work = func(_ *bench, seat Seat, id string, f files) (Work, error) {
			name := "1"
			if seat.Agent == "two" {
				name = "2"
			}
			if !strings.HasSuffix(f[id], name) { // otherwise it was repeated, and continues with its own files
				f[id] += name
			}
			if len(f[id]) < 3 {
				return says("there is more to do")
			}
			return says(done)
		}
		return b
	}
}

// wellDone checks that turns were taken: each agent had the result of the one before.
func wellDone(t *testing.T, b *bench, s *State, d *taskqueue.Queue, ids ...string) {
	t.Helper()
	if s.Status != run.Completed || len(s.Closed) != len(ids) || len(s.Left) > 0 || len(b.main) != len(ids) {
		t.Errorf("it is %s (%s: %s), %v closed, %v left, with %v", s.Status, s.Reason, s.Detail, s.Closed, s.Left, b.main)
	}
	for _, id := range ids {
		if got := b.main[id]; got != "121" && got != "212" {
			t.Errorf("%s is the work of %q", id, got)
		}
		if x := at(t, d, id); x.Status != task.Closed {
			t.Errorf("%s is %s", id, x.Status)
		}
	}
}

func TestTeamTurns(t *testing.T) {
	p, r, d, bench := inTurns(t, "a", "b", "c")
	synctest.Test(t, func(t *testing.T) {
		b := bench(t)
		s, err := teamwork(t.Context(), t, p, b, r, d, nil)
		must(t, err)
		wellDone(t, b, s, d, "bd-a", "bd-b", "bd-c")
		if s.Iteration != 9 || b.most != 2 {
			t.Errorf("it took %d iterations, %d at a time", s.Iteration, b.most)
		}
		events, err := r.Events()
		must(t, err)
		again, err := Fold(events)
		if must(t, err); !reflect.DeepEqual(again, s) {
			t.Errorf("folded anew it is\n%+v\nnot\n%+v", again, s)
		}
	})
}

// TestTeamTurnsCrash checks a host that dies after any event, and the next carrier: every worker
// continues with the agent whose turn it is, and with the current files.
func TestTeamTurnsCrash(t *testing.T) {
	racetest.Skip(t)
	for n := 1; ; n += everyNth {
		died := false
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			p, r, d, bench := inTurns(t, "a", "b", "c")
			synctest.Test(t, func(t *testing.T) {
				b := bench(t)
				count := 0
				_, err := teamwork(t.Context(), t, p, b, r, d, func(run.Event) bool { count++; return count == n })
				if died = err != nil; !died {
					return
				}
				s, err := teamwork(t.Context(), t, p, b, r, d, nil)
				must(t, err)
				wellDone(t, b, s, d, "bd-a", "bd-b", "bd-c")
			})
		})
		if !died {
			if n < 20 {
				t.Errorf("there were %d events", n)
			}
			return
		}
	}
}

// TestTeamTurnsRemoved checks that a worker's places for the second agent are replaced after a person
// removes them. Only work in them that was not joined is repeated.
func TestTeamTurnsRemoved(t *testing.T) {
	racetest.Skip(t)
	for _, kind := range []string{Baseline, Took, Handed, Iteration, Worked, Kept, Judged, Joined, Settled, Closed} {
		for _, dies := range []bool{false, true} {
			t.Run(fmt.Sprint(kind, dies), func(t *testing.T) {
				p, r, d, bench := inTurns(t, "a", "b", "c")
				synctest.Test(t, func(t *testing.T) {
					b := bench(t)
					left := 2
					remove := func(ev run.Event) bool {
						defer b.locked()()
						if ev.Type != kind || left == 0 {
							return false
						}
						if left--; left > 0 && kind != Baseline { // the second time
							return false
						}
						left = 0
						for worker := 1; worker <= 2; worker++ {
							b.gone[Seat{Worker: worker, Agent: "two"}] = true
							b.places[Seat{Worker: worker, Agent: "two"}] = files{"stale": "stale"}
						}
						return dies
					}
					s, err := teamwork(t.Context(), t, p, b, r, d, remove)
					if dies {
						if err == nil {
							t.Fatalf("it did not die behind %s", kind)
						}
						s, err = teamwork(t.Context(), t, p, b, r, d, nil)
					}
					must(t, err)
					wellDone(t, b, s, d, "bd-a", "bd-b", "bd-c")
					for _, seat := range []Seat{{Worker: 1}, {Worker: 2}} {
						for _, one := range s.Places {
							if one.Seat == seat {
								t.Errorf("the place of %v is another one, and it was there", seat)
							}
						}
					}
				})
			})
		}
	}
}
