package loop

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/loop/taskqueue"
	"github.com/bothy-dev/bothy/internal/racetest"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/spec"
)

// files are the contents of a sandbox.
type files map[string]string

// bench is an in-memory runner. It survives the process that works with it.
type bench struct {
	t  *testing.T
	mu sync.Mutex

	main   files
	places map[Seat]files
	points []files
	at     map[Seat]bool // seats that are working
	gone   map[Seat]bool // seats whose place a person has removed
	joined int64         // the last merge

	// work does the work at a task, and judge reports whether all is well.
	work  func(b *bench, seat Seat, id string, f files) (Work, error)
	judge func(f files) string
	takes func(seat Seat) time.Duration
	spent func(seat Seat) int64

	opinion func(f files) string
	reviews []ReviewJob

	rests []int64 // remaining tokens for each job

	most, jobs int // maximum of concurrent jobs, and number of all jobs
	prompts    []string
}

var _ TeamRunner = (*bench)(nil)

func newBench(t *testing.T) *bench {
	return &bench{
		t: t, main: files{}, places: map[Seat]files{}, at: map[Seat]bool{}, gone: map[Seat]bool{},
		judge: func(files) string { return "" },
		takes: func(Seat) time.Duration { return time.Minute },
		spent: func(Seat) int64 { return 0 },
		work: func(_ *bench, _ Seat, id string, f files) (Work, error) {
			f[id] = "done"
			return says(done)
		},
	}
}

func (b *bench) locked() func() {
	b.mu.Lock()
	return b.mu.Unlock
}

func (b *bench) point(f files) int64 {
	b.points = append(b.points, maps.Clone(f))
	return int64(len(b.points))
}

func (b *bench) Gone(seat Seat) bool {
	defer b.locked()()
	return b.gone[seat]
}

func (b *bench) Remake(_ context.Context, seat Seat, before []Place, noted func(Place) error) (p Place, err error) {
	p = Place{Seat: seat, ID: fmt.Sprint("place-", len(before)), Sandbox: "box"}
	if err := noted(p); err != nil {
		return p, err
	}
	defer b.locked()()
	if !b.gone[seat] {
		b.t.Errorf("%v is made anew, and was there", seat)
	}
	delete(b.gone, seat)
	b.places[seat] = maps.Clone(b.main)
	return p, nil
}

func (b *bench) Ahead(context.Context, Seat) { b.t.Error("one of several is got ready for") }

func (b *bench) Begin(_ context.Context, seat Seat) (int64, error) {
	defer b.locked()()
	if b.gone[seat] {
		return 0, errGone
	}
	b.places[seat] = maps.Clone(b.main)
	return b.point(b.main), nil
}

func (b *bench) Hand(_ context.Context, seat Seat, checkpoint int64) error {
	defer b.locked()()
	if b.gone[seat] {
		return errGone
	}
	b.places[seat] = maps.Clone(b.points[checkpoint-1])
	return nil
}

var taskLine = regexp.MustCompile(`(?m)^# (bd-[a-z0-9]+): `)

func (b *bench) Work(ctx context.Context, job Job) (Work, error) {
	b.mu.Lock()
	if b.at[job.Seat] {
		b.t.Errorf("%v works twice", job.Seat)
	}
	b.at[job.Seat] = true
	b.most, b.jobs = max(b.most, len(b.at)), b.jobs+1
	b.prompts, b.rests = append(b.prompts, job.Prompt), append(b.rests, job.Rest.Tokens)
	b.mu.Unlock()
	defer func() {
		defer b.locked()()
		delete(b.at, job.Seat)
	}()
	select {
	case <-ctx.Done():
		return Work{Tokens: 1}, context.Cause(ctx)
	case <-time.After(b.takes(job.Seat)):
	}
	defer b.locked()()
	if b.gone[job.Seat] {
		return Work{Tokens: 1}, errGone
	}
	return b.work(b, job.Seat, taskLine.FindStringSubmatch(job.Prompt)[1], b.places[job.Seat])
}

func (b *bench) Keep(_ context.Context, seat Seat, _ string) (int64, error) {
	defer b.locked()()
	if b.gone[seat] {
		return 0, errGone
	}
	f := b.main
	if seat.Worker > 0 {
		f = b.places[seat]
	}
	return b.point(f), nil
}

func (b *bench) Changes(_ Seat, since, at int64) (int, error) {
	defer b.locked()()
	f, was := b.points[at-1], files{}
	if since > 0 {
		was = b.points[since-1]
	}
	changes := 0
	for _, path := range slices.Concat(slices.Collect(maps.Keys(f)), slices.Collect(maps.Keys(was))) {
		if f[path] != was[path] {
			changes++
		}
	}
	return changes, nil
}

func (b *bench) Restore(context.Context, int64) error { return errors.New("nobody goes back") }

func (b *bench) Beneath(int64) ([]string, error) { return nil, nil }

func (b *bench) Judge(_ context.Context, n int64, _ map[string]string) ([]Gate, map[string]string, error) {
	defer b.locked()()
	why := b.judge(b.points[n-1])
	if _, is := b.points[n-1]["spoilt"]; is {
		return []Gate{{Name: "protected test", Protects: "test", Why: "it is not what it was"}}, nil, nil
	}
	return []Gate{{Name: "all is well", Green: why == "", Why: why}}, nil, nil
}

func (b *bench) PutBack(_ context.Context, seat Seat, _ map[string]string) (g Guard, err error) {
	defer b.locked()()
	if b.gone[seat] {
		return g, errGone
	}
	if b.at[seat] {
		b.t.Errorf("%v works while something is put back", seat)
	}
	if _, is := b.places[seat]["spoilt"]; is {
		delete(b.places[seat], "spoilt")
		g.Paths = []string{"spoilt"}
	}
	return g, nil
}

func (b *bench) Review(_ context.Context, job ReviewJob) (Opinion, error) {
	defer b.locked()()
	b.reviews = append(b.reviews, job)
	verdict := b.opinion(b.points[job.Checkpoint-1])
	if verdict == "" {
		return Opinion{Work: Work{Verdict: spec.VerdictLimit, Tokens: 5}}, nil
	}
	return Opinion{Work: Work{Verdict: spec.VerdictOK, Tokens: 5}, Document: []byte(verdict)}, nil
}

func (b *bench) Join(_ context.Context, base, theirs int64, _ string) (j Join, err error) {
	defer b.locked()()
	was, did, is := b.points[base-1], b.points[theirs-1], maps.Clone(b.main)
	for _, at := range slices.Sorted(maps.Keys(did)) {
		switch {
		case did[at] == was[at] || did[at] == is[at]:
		case is[at] != was[at]:
			j.Conflicts = append(j.Conflicts, at)
		default:
			is[at] = did[at]
		}
	}
	if len(j.Conflicts) == 0 {
		j.Ours, j.Checkpoint, j.Alone = b.point(b.main), b.point(is), maps.Equal(is, did)
		b.joined = j.Checkpoint
	}
	return j, nil
}

func (b *bench) Settle(_ context.Context, ours, n int64) error {
	defer b.locked()()
	if !maps.Equal(b.main, b.points[ours-1]) {
		return ErrMoved
	}
	if n != b.joined {
		b.t.Errorf("%d is settled, and %d was brought together last", n, b.joined)
	}
	b.main = maps.Clone(b.points[n-1])
	return nil
}

func (b *bench) Spent(_ context.Context, seat Seat) (int64, float64, error) {
	return b.spent(seat), 0, nil
}

// teamwork carries a loop on with several workers. If die is not nil, the process dies after the first
// event for which die returns true.
func teamwork(ctx context.Context, t *testing.T, p *loopplan.Plan, b *bench, r *run.Run, d *taskqueue.Queue, die func(run.Event) bool) (*State, error) {
	t.Helper()
	h, events, err := r.Host()
	must(t, err)
	defer h.Close()
	team := &Loop{Plan: p, Run: r, Host: h, Runner: b, Queue: d, Tell: func(ev run.Event, _ *State) {
		if die != nil && die(ev) {
			h.Close() // no event can be written any more
		}
	}}
	s, err := team.Carry(ctx, events)
	if len(b.at) > 0 {
		t.Errorf("%v are left at work", b.at)
	}
	return s, err
}

// hire makes a loop with workers, for these tasks.
func hire(t *testing.T, workers int, titles ...string) (*loopplan.Plan, *run.Run, *taskqueue.Queue) {
	t.Helper()
	p, r, d := desk(t, titles...)
	p.Workers, p.Tasks.Tries, p.Limits.MaxIterations = workers, 4, 200
	must(t, p.Check())
	return p, r, d
}

func TestTeam(t *testing.T) {
	p, r, d := hire(t, 2, "a", "b", "c")
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		began := time.Now()
		s, err := teamwork(t.Context(), t, p, b, r, d, nil)
		must(t, err)
		if s.Status != run.Completed || s.Reason != "done" || len(s.Closed) != 3 || s.Iteration != 3 || b.most != 2 || time.Since(began) > 3*time.Minute {
			t.Errorf("it is %s (%s), %d closed after %d iterations and %s, %d at a time", s.Status, s.Reason, len(s.Closed), s.Iteration, time.Since(began), b.most)
		}
		if want := (files{"bd-a": "done", "bd-b": "done", "bd-c": "done"}); !maps.Equal(b.main, want) {
			t.Errorf("there is %v", b.main)
		}
		events, err := r.Events()
		must(t, err)
		again, err := Fold(events)
		if must(t, err); !reflect.DeepEqual(again, s) {
			t.Errorf("folded anew it is\n%+v\nnot\n%+v", again, s)
		}
	})
}

// TestTeamRemoved checks that a place is replaced after a person removes it, in every state of the
// worker, and also by the next carrier. Work that was not joined is repeated; all other work continues.
func TestTeamRemoved(t *testing.T) {
	racetest.Skip(t)
	for _, kind := range []string{Baseline, Took, Iteration, Worked, Kept, Judged, Joined, Settled, Closed, Placing, Replaced} {
		for _, dies := range []bool{false, true} {
			t.Run(fmt.Sprint(kind, dies), func(t *testing.T) {
				p, r, d := hire(t, 2, "a", "b", "c")
				synctest.Test(t, func(t *testing.T) {
					b := newBench(t)
					left := 1
					remove := func(ev run.Event) bool {
						defer b.locked()()
						if (ev.Type == Iteration || ev.Type == Joined) && left > 0 && (kind == Placing || kind == Replaced) {
							b.gone[Seat{Worker: 1}] = true
						}
						if ev.Type != kind || left == 0 {
							return false
						}
						left--
						b.gone[Seat{Worker: 1}], b.gone[Seat{Worker: 2}] = true, kind != Joined
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
					want := files{"bd-a": "done", "bd-b": "done", "bd-c": "done"}
					if s.Status != run.Completed || len(s.Closed) != 3 || !maps.Equal(b.main, want) || len(s.Left) > 0 {
						t.Errorf("it is %s (%s: %s), %v closed, %v left, with %v", s.Status, s.Reason, s.Detail, s.Closed, s.Left, b.main)
					}
					if events, err := r.Events(); err != nil || !slices.ContainsFunc(events, func(ev run.Event) bool { return ev.Type == Replaced }) && kind != Closed {
						t.Errorf("no place was made anew: %v", err)
					}
					for i, one := range s.Places {
						if i > 0 && one.Seat == s.Places[i-1].Seat {
							t.Errorf("there are the places %v", s.Places)
						}
					}
					for _, id := range []string{"bd-a", "bd-b", "bd-c"} {
						if x := at(t, d, id); x.Status != task.Closed {
							t.Errorf("%s is %s", id, x.Status)
						}
					}
				})
			})
		}
	}
}

// TestTeamRaised checks a loop that reached a limit, and whose places were removed. After the loop is
// resumed, the new places have the workers' results.
func TestTeamRaised(t *testing.T) {
	p, r, d := hire(t, 2, "a", "b")
	p.Limits.MaxIterations = 4
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.work = func(_ *bench, _ Seat, id string, f files) (Work, error) {
			f[id] += "+"
			return says(done)
		}
		b.judge = func(f files) string {
			for id, has := range f {
				if len(has) < 3 {
					return id + " has no more than " + has
				}
			}
			return ""
		}
		s, err := teamwork(t.Context(), t, p, b, r, d, nil)
		if must(t, err); s.Status != run.Limited || len(s.Closed) > 0 || Reached(p, s) == nil {
			t.Fatalf("it is %s (%s), with %v", s.Status, s.Reason, s.Closed)
		}
		b.gone[Seat{Worker: 1}], b.gone[Seat{Worker: 2}] = true, true
		p.Limits.MaxIterations = 30
		s, err = teamwork(t.Context(), t, p, b, r, d, nil)
		must(t, err)
		if want := (files{"bd-a": "+++", "bd-b": "+++"}); s.Status != run.Completed || !maps.Equal(b.main, want) || s.Iteration != 6 || len(s.Left) > 0 {
			t.Errorf("it is %s (%s) after %d iterations, with %v, %v left", s.Status, s.Reason, s.Iteration, b.main, s.Left)
		}
	})
}

// TestTeamModels checks that models take turns for each worker, in all of its tasks. A repeated
// iteration keeps its model. With a common count of iterations, each worker would always have the same
// model.
func TestTeamModels(t *testing.T) {
	p, r, d := hire(t, 2, "a", "b", "c", "d", "e", "f")
	p.Models = []string{"one", "two"}
	must(t, p.Check())
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		begun := 0
		_, err := teamwork(t.Context(), t, p, b, r, d, func(ev run.Event) bool {
			if ev.Type == Iteration {
				begun++
			}
			return begun == 4
		})
		if err == nil {
			t.Fatal("it did not die")
		}
		s, err := teamwork(t.Context(), t, p, b, r, d, nil)
		must(t, err)
		if s.Status != run.Completed || len(s.Closed) != 6 {
			t.Errorf("it is %s (%s), %d closed", s.Status, s.Detail, len(s.Closed))
		}
		events, err := r.Events()
		must(t, err)
		turns := map[int][]string{}
		last := map[int]int{}
		for _, ev := range events {
			if ev.Type != Iteration {
				continue
			}
			must(t, run.Read(ev, func(e Begun) {
				switch turn := turns[e.Worker]; {
				case last[e.Worker] == e.Iteration && turn[len(turn)-1] != e.Model:
					t.Errorf("worker %d begins iteration %d again with %s, after %v", e.Worker, e.Iteration, e.Model, turn)
				case last[e.Worker] != e.Iteration:
					turns[e.Worker], last[e.Worker] = append(turn, e.Model), e.Iteration
				}
			}))
		}
		for n := 1; n <= 2; n++ {
			for i, model := range turns[n] {
				if model != p.Models[i%2] {
					t.Errorf("worker %d has %v", n, turns[n])
				}
			}
		}
		if len(turns[1])+len(turns[2]) != 6 || len(turns[1]) < 2 || s.Repeats == 0 {
			t.Errorf("there were %v, %d begun again", turns, s.Repeats)
		}
	})
}

// TestTeamMany checks that the maximum number of workers are all busy, and that no task is done twice.
func TestTeamMany(t *testing.T) {
	var titles []string
	for n := range manyTasks {
		titles = append(titles, fmt.Sprintf("t%d", n))
	}
	p, r, d := hire(t, loopplan.MaxWorkers, titles...)
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		s, err := teamwork(t.Context(), t, p, b, r, d, nil)
		must(t, err)
		if s.Status != run.Completed || len(s.Closed) != manyTasks || len(b.main) != manyTasks || b.jobs != manyTasks || b.most != loopplan.MaxWorkers || s.Retries != 0 {
			t.Errorf("it is %s (%s), %d closed, %d jobs, %d at a time, %d tried again", s.Status, s.Detail, len(s.Closed), b.jobs, b.most, s.Retries)
		}
	})
}

// TestTeamDependencies checks that tasks that wait for others begin when those are done, with their
// results.
func TestTeamDependencies(t *testing.T) {
	p, r, d := hire(t, 3, "last", "a", "b")
	must(t, d.Store.Change(t.Context(), func(g *task.Graph) error {
		for _, on := range []string{"bd-a", "bd-b"} {
			if _, err := g.Link("bd-last", task.Link{On: on, Kind: task.Blocks}, "ann", time.Now().UTC()); err != nil {
				return err
			}
		}
		return nil
	}))
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.work = func(_ *bench, _ Seat, id string, f files) (Work, error) {
			if id == "bd-last" && (f["bd-a"] == "" || f["bd-b"] == "") {
				t.Errorf("the last began with %v", f)
			}
			f[id] = "done"
			return says(done)
		}
		s, err := teamwork(t.Context(), t, p, b, r, d, nil)
		must(t, err)
		if s.Status != run.Completed || len(s.Closed) != 3 || s.Closed[2].Task != "bd-last" {
			t.Errorf("it is %s, %v", s.Status, s.Closed)
		}
	})
}

// TestTeamAgain checks a worker whose changes conflict with another's, or are red together with them. It
// starts again with the other's changes, and is told so, but not for ever.
func TestTeamAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		work  func(b *bench, id string, f files)
		judge func(f files) string
		told  string
	}{
		"conflict": {
			work: func(_ *bench, id string, f files) { f["one"] += id },
			told: "what others have done meanwhile is in conflict with it: one",
		},
		"red together": {
			work: func(_ *bench, id string, f files) {
				if f[id] = "loud"; len(f) > 1 {
					f[id] = "quiet"
				}
			},
			judge: func(f files) string {
				if n := slices.Collect(maps.Values(f)); len(n) > 1 && !slices.Contains(n, "quiet") {
					return "too loud"
				}
				return ""
			},
			told: "it is green by itself, and red together with what others have done meanwhile: all is well (too loud)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, r, d := hire(t, 2, "a", "b")
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.work = func(b *bench, _ Seat, id string, f files) (Work, error) { tt.work(b, id, f); return says(done) }
				if tt.judge != nil {
					b.judge = tt.judge
				}
				s, err := teamwork(t.Context(), t, p, b, r, d, nil)
				must(t, err)
				if s.Status != run.Completed || s.Reason != "done" || len(s.Closed) != 2 || s.Retries != 1 || s.Iteration != 3 {
					t.Errorf("it is %s (%s), %v, %d tried again, after %d", s.Status, s.Reason, s.Closed, s.Retries, s.Iteration)
				}
				if last := b.prompts[len(b.prompts)-1]; !strings.Contains(last, tt.told) {
					t.Errorf("the last was told %q", last)
				}
			})
		})
	}
	p, r, d := hire(t, 2, "a", "b", "c")
	p.Tasks.Tries = 2
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.judge = func(f files) string {
			if len(f) > 1 {
				return "only one of them"
			}
			return ""
		}
		s, err := teamwork(t.Context(), t, p, b, r, d, nil)
		must(t, err)
		if s.Reason != reasonTasksFailed || len(s.Closed) != 1 || len(s.Left) != 2 || len(b.main) != 1 {
			t.Errorf("it is %s (%s), %v closed, %v left, with %v", s.Status, s.Reason, s.Closed, s.Left, b.main)
		}
	})
}

// TestTeamCrash lets a process die after any event, again and again, with occasional conflicts and red
// merges. In the end every task is done once, and the result of every closed task is there.
func TestTeamCrash(t *testing.T) {
	racetest.Skip(t)
	seed := rand.Uint64()
	for round := range uint64(crashes) {
		r := rand.New(rand.NewPCG(seed, round))
		var titles []string
		for n := range 3 + r.IntN(4) {
			titles = append(titles, fmt.Sprintf("t%d", n))
		}
		p, run1, d := hire(t, 2+r.IntN(3), titles...)
		p.Tasks.Tries, p.Stall = 100, loopplan.Stall{}
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			b.takes = func(Seat) time.Duration { defer b.locked()(); return time.Duration(1+r.IntN(600)) * time.Second }
			b.work = func(_ *bench, _ Seat, id string, f files) (Work, error) {
				if r.IntN(4) == 0 {
					return says("not yet")
				}
				if f[id] = "done"; r.IntN(3) == 0 {
					f["shared"] += id + " "
				}
				return says(done)
			}
			b.judge = func(f files) string {
				if r.IntN(6) == 0 {
					return "by chance"
				}
				return ""
			}
			var s *State
			for try := 0; s == nil || !s.Final(); try++ {
				left := 1 + r.IntN(40)
				if try > 200 {
					t.Fatalf("seed %d, round %d: it comes to no end: %+v", seed, round, s)
				}
				var err error
				s, err = teamwork(t.Context(), t, p, b, run1, d, func(ev run.Event) bool { left--; return left == 0 })
				if err == nil && s.Status != run.Completed {
					t.Fatalf("seed %d, round %d: it is %s (%s): %s", seed, round, s.Status, s.Reason, s.Detail)
				}
				for _, f := range s.Closed {
					if b.main[f.Task] != "done" {
						t.Fatalf("seed %d, round %d: %s is closed, and there is %v", seed, round, f.Task, b.main)
					}
				}
				if err != nil { // its old state does not match the events
					s = nil
				}
			}
			closed := map[string]bool{}
			for _, f := range s.Closed {
				if closed[f.Task] {
					t.Errorf("seed %d, round %d: %s was closed twice", seed, round, f.Task)
				}
				closed[f.Task] = true
			}
			for _, title := range titles {
				if x := at(t, d, "bd-"+title); x.Status != task.Closed || !closed[x.ID] {
					t.Errorf("seed %d, round %d: %s is %s", seed, round, x.ID, x.Status)
				}
			}
		})
	}
}

// TestTeamReview checks that reviewers are asked about a worker's result, and again about its
// merge with the others'.
func TestTeamReview(t *testing.T) {
	p, r, d := hire(t, 2, "a", "b")
	p.Gates = []loopplan.Criterion{{ID: "look", Reviewer: &loopplan.Reviewer{Agent: "mine", Prompt: "look at it"}}}
	must(t, p.Check())
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.work = func(_ *bench, _ Seat, id string, f files) (Work, error) {
			if f[id] = "loud"; len(f) > 1 {
				f[id] = "quiet"
			}
			return says(done)
		}
		b.opinion = func(f files) string {
			if n := slices.Collect(maps.Values(f)); len(n) > 1 && !slices.Contains(n, "quiet") {
				return `{"verdict":"fail","reasons":["too loud together"]}`
			}
			return `{"verdict":"pass","reasons":[]}`
		}
		s, err := teamwork(t.Context(), t, p, b, r, d, nil)
		must(t, err)
		if s.Status != run.Completed || len(s.Closed) != 2 || s.Retries != 1 || len(b.reviews) != 4 {
			t.Errorf("it is %s (%s), %d tried again, %d reviews", s.Status, s.Detail, s.Retries, len(b.reviews))
		}
		if want := int64(3*10 + 4*5); s.Tokens != want {
			t.Errorf("it took %d tokens, want %d", s.Tokens, want)
		}
		if last := b.prompts[len(b.prompts)-1]; !strings.Contains(last, "look (the reviewer does not agree: - too loud together)") {
			t.Errorf("the last was told %q", last)
		}
		for _, job := range b.reviews {
			if !strings.Contains(string(job.Files[loopplan.ReviewTask]), "# bd-") {
				t.Errorf("a reviewer was told %q", job.Files)
			}
		}
	})
}

// TestTeamReviewDelayed checks the wait for a reviewer whose allowance is used up, for a worker's
// own result and for the merge; and that it is limited.
func TestTeamReviewDelayed(t *testing.T) {
	for _, limits := range []int{1, 4, 1000} {
		p, r, d := hire(t, 2, "a", "b")
		p.Gates = []loopplan.Criterion{{ID: "look", Reviewer: &loopplan.Reviewer{Agent: "mine", Prompt: "look at it"}}}
		p.Stall.SameLimit = 3
		synctest.Test(t, func(t *testing.T) {
			b, asked := newBench(t), 0
			b.opinion = func(files) string {
				if asked++; asked%2 == 1 && asked < 2*limits || limits == 1000 {
					return ""
				}
				return agrees
			}
			s, err := teamwork(t.Context(), t, p, b, r, d, nil)
			must(t, err)
			if limits == 1000 {
				if s.Status != run.Stalled || s.Reason != "same_limit" || len(s.Closed) != 0 || b.jobs != 2 {
					t.Errorf("it is %s (%s), %d closed, %d jobs, %d reviews", s.Status, s.Detail, len(s.Closed), b.jobs, len(b.reviews))
				}
				return
			}
			if s.Status != run.Completed || len(s.Closed) != 2 || b.jobs != 2 || len(b.reviews) <= 3 || s.Tokens != int64(2*10+5*len(b.reviews)) {
				t.Errorf("with %d it is %s (%s), %d closed, %d jobs, %d reviews", limits, s.Status, s.Detail, len(s.Closed), b.jobs, len(b.reviews))
			}
		})
	}
}

// TestTeamPerson checks that a person's change to the loop's sandbox between two carriers stays.
func TestTeamPerson(t *testing.T) {
	for _, kind := range []string{Joined, Rejudged, Settled, Closed} {
		p, r, d := hire(t, 2, "a", "b")
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			_, err := teamwork(t.Context(), t, p, b, r, d, func(ev run.Event) bool { return ev.Type == kind })
			if err == nil {
				t.Fatalf("it did not die behind %s", kind)
			}
			b.main["person"] = "was here"
			s, err := teamwork(t.Context(), t, p, b, r, d, nil)
			must(t, err)
			if want := (files{"bd-a": "done", "bd-b": "done", "person": "was here"}); s.Status != run.Completed || !maps.Equal(b.main, want) {
				t.Errorf("behind %s it is %s, with %v", kind, s.Status, b.main)
			}
		})
	}
}

// TestTeamMoved checks that such a change while the merge is judged stays, too: it is judged as well.
func TestTeamMoved(t *testing.T) {
	p, r, d := hire(t, 2, "a", "b")
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.judge = func(f files) string {
			if len(f) == 2 && b.main["person"] == "" {
				b.main["person"] = "was here"
			}
			if f["person"] != "" && f["bd-a"] != "" && f["bd-b"] != "" {
				b.main["judged"] = "all"
			}
			return ""
		}
		s, err := teamwork(t.Context(), t, p, b, r, d, nil)
		must(t, err)
		want := files{"bd-a": "done", "bd-b": "done", "person": "was here", "judged": "all"}
		if s.Status != run.Completed || len(s.Closed) != 2 || !maps.Equal(b.main, want) {
			t.Errorf("it is %s, with %v", s.Status, b.main)
		}
	})
}

// TestTeamSpent checks that the usage of all workers together counts, also while they work.
func TestTeamSpent(t *testing.T) {
	p, r, d := hire(t, 3, "a", "b", "c", "e")
	p.Limits.Tokens = 1000
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.takes = func(Seat) time.Duration { return time.Hour }
		began := time.Now()
		b.spent = func(Seat) int64 { return int64(time.Since(began).Seconds()) * 10 }
		s, err := teamwork(t.Context(), t, p, b, r, d, nil)
		must(t, err)
		if took := time.Since(began); s.Status != run.Limited || s.Reason != "tokens" || took < 30*time.Second || took > 40*time.Second || s.Iteration != 3 {
			t.Errorf("it is %s (%s) after %s", s.Status, s.Reason, took)
		}
		for _, id := range []string{"bd-a", "bd-b", "bd-c"} {
			if x := at(t, d, id); x.Status != task.Open || !strings.Contains(x.Notes, "the loop ended: limit (tokens)") {
				t.Errorf("%s is %+v", id, x)
			}
		}
	})
	// A worker that begins later gets the rest that the busy ones have left.
	p, r, d = hire(t, 2, "a", "b", "c")
	p.Limits.Tokens = 1000
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.takes = func(seat Seat) time.Duration { return time.Duration(seat.Worker) * 20 * time.Second }
		b.spent = func(seat Seat) int64 { return int64(seat.Worker-1) * 300 }
		s, err := teamwork(t.Context(), t, p, b, r, d, nil)
		must(t, err)
		if want := []int64{1000, 1000, 690}; s.Status != run.Completed || !slices.Equal(b.rests, want) { // 10 are acknowledged
			t.Errorf("it is %s (%s), and they had %v", s.Status, s.Reason, b.rests)
		}
	})
	p, r, d = hire(t, 2, "a", "b", "c", "e")
	p.Limits.MaxIterations = 3
	synctest.Test(t, func(t *testing.T) {
		s, err := teamwork(t.Context(), t, p, newBench(t), r, d, nil)
		must(t, err)
		if s.Status != run.Limited || s.Reason != "iterations" || s.Iteration != 3 || len(s.Closed) != 3 {
			t.Errorf("it is %s (%s) after %d iterations with %v", s.Status, s.Reason, s.Iteration, s.Closed)
		}
	})
}

// TestTeamEnds checks that a pause lets every worker finish its step; a stop and a signal do not.
func TestTeamEnds(t *testing.T) {
	for _, tt := range []struct {
		kind   string
		status run.Status
		closed int
		open   bool
	}{
		{run.Pause, run.Waiting, 2, true}, {run.Stop, run.Cancelled, 0, true}, {"signal", run.Interrupted, 0, true},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			p, r, d := hire(t, 2, "a", "b", "c")
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				ctx, stop := context.WithCancelCause(t.Context())
				defer stop(nil)
				go func() {
					time.Sleep(10 * time.Second)
					if tt.kind == "signal" {
						stop(&spec.Exited{Code: spec.ExitSignal + 15})
						return
					}
					must(t, r.Leave(run.Message{Kind: tt.kind, Actor: "ann"}))
				}()
				s, err := teamwork(ctx, t, p, b, r, d, nil)
				must(t, err)
				if s.Status != tt.status || len(s.Closed) != tt.closed {
					t.Errorf("it is %s, with %v", s.Status, s.Closed)
				}
				if list, err := r.Mail(); err != nil || len(list) > 0 {
					t.Errorf("there is mail: %v, %v", list, err)
				}
				for _, id := range []string{"bd-a", "bd-b", "bd-c"} {
					if x := at(t, d, id); x.Status == task.InProgress {
						t.Errorf("%s is held by %s", id, x.Assignee)
					}
				}
				if tt.status == run.Cancelled {
					return
				}
				s, err = teamwork(t.Context(), t, p, b, r, d, nil)
				if must(t, err); s.Status != run.Completed || len(s.Closed) != 3 {
					t.Errorf("gone on with it is %s, with %v", s.Status, s.Closed)
				}
			})
		})
	}
}

// TestTeamLost checks that work at a task stops when another holder takes it, and that the other workers
// continue.
func TestTeamLost(t *testing.T) {
	p, r, d := hire(t, 2, "a", "b")
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.takes = func(seat Seat) time.Duration { return time.Duration(seat.Worker) * time.Hour }
		go func() {
			time.Sleep(time.Minute)
			must(t, d.Store.Change(t.Context(), func(g *task.Graph) error {
				if _, err := g.Release("bd-b", "ann", true, time.Now().UTC()); err != nil {
					return err
				}
				_, err := g.Claim("bd-b", "ann", 24*time.Hour, time.Now().UTC())
				return err
			}))
		}()
		s, err := teamwork(t.Context(), t, p, b, r, d, nil)
		must(t, err)
		if len(s.Closed) != 1 || len(s.Left) != 1 || s.Left[0].Task != "bd-b" || b.main["bd-b"] != "" {
			t.Errorf("%v are closed, %v left", s.Closed, s.Left)
		}
		if x := at(t, d, "bd-b"); x.Assignee != "ann" {
			t.Errorf("it is %s's", x.Assignee)
		}
	})
}

// TestTeamHint checks that a hint is delivered to one worker, the next; and to another if that one has
// no result.
func TestTeamHint(t *testing.T) {
	p, r, d := hire(t, 2, "a", "b")
	must(t, r.Leave(run.Message{Kind: run.Hint, Text: "mind the gap", Actor: "ann"}))
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		tries := 0
		b.work = func(_ *bench, seat Seat, id string, f files) (Work, error) {
			if tries++; seat.Worker == 1 && tries == 1 {
				return Work{Verdict: spec.VerdictLimit}, nil
			}
			f[id] = "done"
			return says(done)
		}
		s, err := teamwork(t.Context(), t, p, b, r, d, nil)
		must(t, err)
		told := 0
		for _, prompt := range b.prompts {
			told += strings.Count(prompt, "mind the gap")
		}
		if s.Status != run.Completed || len(s.Hints) != 0 || told < 1 || told > 2 {
			t.Errorf("it is %s, %d were told, %v are left", s.Status, told, s.Hints)
		}
	})
}

// TestFoldWorkers checks that events cannot name arbitrarily many workers.
func TestFoldWorkers(t *testing.T) {
	for _, bad := range []string{`{"worker":1000000}`, `{"worker":-1}`} {
		if _, err := Fold([]run.Event{{Seq: 1, Type: Took, Data: []byte(bad)}}); err == nil {
			t.Errorf("%s is a worker", bad)
		}
	}
}

// anyWorkerEvent returns an event of one of several workers, or of none, that may follow any other
// event.
func anyWorkerEvent(r *rand.Rand) (string, any) {
	n := 1 + r.IntN(5)
	by := By{Worker: r.IntN(4)}
	id := fmt.Sprintf("bd-%d", r.IntN(3))
	gates := []Gate{{Name: "a", Green: r.IntN(2) == 0, Why: "x"}}
	all := []struct {
		kind string
		data any
	}{
		{run.Began, nil},
		{Baseline, Verdict{Gates: gates}},
		{Took, Taken{By: by, ID: id, Base: int64(n)}},
		{Iteration, Begun{By: by, Iteration: n, Hints: n - 1}},
		{Worked, Work{By: by, Iteration: n, Verdict: []string{spec.VerdictOK, spec.VerdictFailed, spec.VerdictLimit}[r.IntN(3)], Done: n == 0, Tokens: int64(n)}},
		{Cut, Work{By: by, Iteration: n, Tokens: int64(n)}},
		{Kept, Keep{By: by, Iteration: n, Checkpoint: int64(n)}},
		{Judged, Verdict{By: by, Iteration: n, Gates: gates}},
		{Joined, Join{By: by, Task: id, Checkpoint: int64(n), Alone: n == 1}},
		{Rejudged, Verdict{By: by, Gates: gates}},
		{Reviewing, Asking{By: by, Gate: "r"}},
		{Reviewed, Review{By: by, Gate: Gate{Name: "r", Review: true, Green: n == 1}}},
		{ReviewDelayed, Unheard{By: by, Gate: "r", Usage: Usage{Tokens: int64(n)}}},
		{ReviewCut, Unheard{By: by, Gate: "r", Usage: Usage{Tokens: int64(n)}}},
		{Settled, Settle{By: by, Checkpoint: int64(n)}},
		{Replaced, Place{Seat: Seat{Worker: by.Worker}, ID: id}},
		{Closed, Finished{By: by, Task: id}},
		{PutBack, Left{By: by, Task: id, Again: n == 1}},
		{Lost, Left{By: by, Task: id}},
		{Hinted, Advice{Message: id, Text: id}},
		{run.Ended, End{Status: run.Stalled}},
	}
	one := all[r.IntN(len(all))]
	return one.kind, one.data
}
