package loop

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/loop/taskqueue"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/internal/task"
	"github.com/bothy-dev/bothy/spec"
)

// TestGoOnConfirms checks that the next carrier confirms files that were kept or judged before, before
// they decide anything. How the loop ended before does not matter, nor whether that was recorded.
func TestGoOnConfirms(t *testing.T) {
	green, red := []Gate{{Name: "a", Green: true}}, []Gate{{Name: "a", Why: "exit code 1"}}
	at := []any{
		run.Began, nil, Baseline,
		Verdict{Gates: red},
		Iteration,
		Begun{Iteration: 1},
		Worked,
		Work{Iteration: 1, Verdict: spec.VerdictOK, Done: true},
		Kept,
		Keep{Iteration: 1, Checkpoint: 2, Changes: 1},
	}
	judged := slices.Concat(at, []any{Judged, Verdict{Iteration: 1, Checkpoint: 2, Gates: green}})
	onRed := slices.Concat(at, []any{Judged, Verdict{Iteration: 1, Checkpoint: 2, Gates: red}})
	same, other := Keep{Iteration: 1, Checkpoint: 3, Again: true}, Keep{Iteration: 1, Checkpoint: 3, Changes: 1, Again: true}
	completed := func(s Step) bool { return s.End != nil && s.End.Status == run.Completed }
	confirms := func(s Step) bool { return s.Confirm }
	judges := func(s Step) bool { return s.Judge }
	asks := func(s Step) bool { return s.Review != nil }
	again := func(s Step) bool { return s.Iterate == 2 }
	for name, c := range map[string]struct {
		happened, then []any
		plan           *loopplan.Plan
		want           func(Step) bool
	}{
		"nobody goes on":               {judged, nil, plan(), completed},
		"judged":                       {judged, []any{run.Began, nil}, plan(), confirms},
		"kept":                         {at, []any{run.Began, nil}, plan(), confirms},
		"judged, to be reviewed":       {judged, []any{run.Began, nil}, reviewed(), confirms},
		"red is no decision":           {onRed, []any{run.Began, nil}, plan(), again},
		"judged, and the same":         {judged, []any{run.Began, nil, Confirmed, same}, plan(), completed},
		"the same, to be reviewed":     {judged, []any{run.Began, nil, Confirmed, same}, reviewed(), asks},
		"kept, and the same":           {at, []any{run.Began, nil, Confirmed, same}, plan(), judges},
		"judged, and otherwise by now": {judged, []any{run.Began, nil, Kept, other}, plan(), judges},
		"cut off once more":            {judged, []any{run.Began, nil, Kept, other, run.Began, nil}, plan(), confirms},
	} {
		for end, ended := range map[string][]any{
			"crash":     nil,
			"paused":    {run.Ended, End{Status: run.Waiting, Reason: "paused"}},
			"signal":    {run.Ended, End{Status: run.Interrupted, Signal: 2}},
			"no memory": {run.Ended, End{Status: run.Failed}},
		} {
			happened := slices.Concat(c.happened, ended, c.then)
			if c.then == nil {
				happened = c.happened
			}
			s := fold(t, happened...)
			if step := Next(c.plan, s, s.Last); !c.want(step) {
				t.Errorf("%s, %s: %+v", name, end, step)
			}
			if s.Unchanged != 0 {
				t.Errorf("%s, %s: %d iterations without a change", name, end, s.Unchanged)
			}
		}
	}
}

// pausedAfter carries a loop on while a person pauses it in its first iteration.
func pausedAfter(t *testing.T, p *loopplan.Plan, f *fake, r *run.Run, d *taskqueue.Queue) {
	t.Helper()
	work := f.work
	f.work = func(int) (Work, error) {
		must(t, r.Leave(run.Message{Kind: run.Pause, Actor: "ann"}))
		return says(done)
	}
	s := workThrough(t.Context(), t, p, f, r, d)
	if s.Reason != "paused" || s.Iteration != 1 || len(s.Verdict.Red()) > 0 {
		t.Fatalf("it is %s (%s), %+v", s.Status, s.Reason, s.Verdict)
	}
	f.work = work
}

// TestGoOnBroken checks that a loop is not done, and a task not closed, if a person breaks the files
// while no process carries the loop on. Otherwise no gate is asked twice.
func TestGoOnBroken(t *testing.T) {
	for _, tasks := range []bool{false, true} {
		for _, broken := range []bool{false, true} {
			p, r, d := desk(t, "one")
			if !tasks {
				p, d = plan(), nil
				r = next(t, r)
			}
			judged := 0
			f := &fake{changes: always(1), work: func(int) (Work, error) { return says(done) }}
			f.green = func(n int) bool {
				judged++
				return n != 1 || !broken || judged <= 2
			}
			pausedAfter(t, p, f, r, d)
			iterations := 1
			if broken {
				f.people, iterations = 1, 2
			}
			judged = 2
			s := workThrough(t.Context(), t, p, f, r, d)
			if s.Status != run.Completed || s.Iteration != iterations || f.n != iterations {
				t.Errorf("tasks %v, broken %v: it is %s (%s) after %d iterations", tasks, broken, s.Status, s.Reason, s.Iteration)
			}
			if !broken && judged != 2 {
				t.Errorf("tasks %v: nothing was changed, and it is judged %d times more", tasks, judged-2)
			}
			if s.Verdict.Checkpoint != s.checked {
				t.Errorf("tasks %v, broken %v: judged is %d, and there is %d", tasks, broken, s.Verdict.Checkpoint, s.checked)
			}
		}
	}
}

// TestGoOnBeneath checks that a change below the kept files does not count as a change by the loop, but
// is judged.
func TestGoOnBeneath(t *testing.T) {
	p, r, _ := desk(t)
	p.Tasks = nil
	f := &fake{changes: always(1), work: func(int) (Work, error) { return says(done) }, green: always(true)}
	pausedAfter(t, p, f, r, nil)
	f.beneath, f.green = []string{"/proj/file"}, func(n int) bool { return n > 1 }
	if s := workThrough(t.Context(), t, p, f, r, nil); s.Status != run.Completed || s.Iteration != 2 {
		t.Errorf("it is %s (%s) after %d iterations", s.Status, s.Reason, s.Iteration)
	}
}

// TestGoOnClosed checks that a task that was closed before a crash is not judged again by itself. It is
// judged in the end, with all other work.
func TestGoOnClosed(t *testing.T) {
	p, r, d := desk(t, "one")
	f := &fake{changes: always(1), work: func(int) (Work, error) { return says(done) }, green: always(true)}
	pausedAfter(t, p, f, r, d)
	now := time.Now().UTC()
	must(t, d.Store.Change(t.Context(), func(g *task.Graph) error {
		_, err := g.Claim("bd-one", d.Who, taskqueue.Lease, now)
		return err
	}))
	must(t, d.Close(t.Context(), "bd-one", closedAs, ""))
	f.people, f.green = 1, always(false)
	s := workThrough(t.Context(), t, p, f, r, d)
	if f.n != 1 || len(s.Closed) != 1 || s.Status != run.Stalled || s.Reason != "no_tasks" {
		t.Errorf("after %d iterations it is %s (%s), %v closed", f.n, s.Status, s.Reason, s.Closed)
	}
}

// TestTeamGoesOn checks that a worker's own place is checked in the same way, unless it is gone: then
// the checkpoint has the files that were judged.
func TestTeamGoesOn(t *testing.T) {
	for _, gone := range []bool{false, true} {
		p, r, d := hire(t, 2, "a")
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			b.judge = func(f files) string {
				if f["file"] == "broken" {
					return "it is broken"
				}
				return ""
			}
			_, err := teamwork(t.Context(), t, p, b, r, d, func(ev run.Event) bool { return ev.Type == Judged })
			if err == nil {
				t.Fatal("it did not die")
			}
			var at Seat
			for seat, f := range b.places {
				if f["bd-a"] == "done" {
					at = seat
				}
			}
			b.places[at]["file"], b.gone[at] = "broken", gone
			b.work = func(_ *bench, _ Seat, _ string, f files) (Work, error) {
				f["file"] = "mended"
				return says(done)
			}
			s, err := teamwork(t.Context(), t, p, b, r, d, nil)
			must(t, err)
			want := files{"bd-a": "done", "file": "mended"}
			if gone {
				want = files{"bd-a": "done"}
			}
			if s.Status != run.Completed || len(s.Closed) != 1 || s.Retries != 0 || len(b.main) != len(want) || b.main["file"] != want["file"] {
				t.Errorf("gone %v: it is %s (%s), %v", gone, s.Status, s.Reason, b.main)
			}
		})
	}
}

// TestGoOnNoneLeft checks that when no task is left after a crash, the gates are asked again only
// if files have changed since.
func TestGoOnNoneLeft(t *testing.T) {
	for _, changed := range []bool{false, true} {
		p, r, d := desk(t, "one")
		f := &fake{changes: always(1), work: func(int) (Work, error) { return says(done) }, green: always(true)}
		h, _, err := r.Host()
		must(t, err)
		l := &Loop{Plan: p, Run: r, Host: h, Runner: f, Queue: d}
		l.Tell = func(ev run.Event, _ *State) {
			if ev.Type == Closed {
				h.Close() // no event can be written any more
			}
		}
		if _, err = l.Carry(t.Context(), nil); err == nil {
			t.Fatal("it did not die")
		}
		f.green = always(false)
		want := reasonDone
		if changed {
			f.people, want = 1, "no_tasks"
		}
		if s := workThrough(t.Context(), t, p, f, r, d); s.Reason != want || f.n != 1 {
			t.Errorf("changed %v: it is %s (%s) after %d iterations", changed, s.Status, s.Reason, f.n)
		}
	}
}
