package loop

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// fold returns the state of a loop after these events, an hour apart.
func fold(t *testing.T, happened ...any) *State {
	t.Helper()
	var events []run.Event
	at := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	for i := 0; i < len(happened); i += 2 {
		data, err := json.Marshal(happened[i+1])
		if err != nil {
			t.Fatal(err)
		}
		at = at.Add(time.Hour)
		events = append(events, run.Event{Seq: int64(len(events)) + 1, Time: at, Type: happened[i].(string), Actor: run.ActorHost, Data: data})
	}
	s, err := Fold(events)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestTookAnother checks that the result of one task does not count for the next task, which begins with
// work.
func TestTookAnother(t *testing.T) {
	p := &loopplan.Plan{Tasks: &loopplan.Tasks{Tries: 3}, Stall: loopplan.UsualStall, Limits: loopplan.Limits{MaxIterations: 9}}
	green, red := []Gate{{Name: "a", Green: true}}, []Gate{{Name: "a", Why: "exit code 1"}}
	worked := Work{Iteration: 1, Verdict: spec.VerdictOK, Done: true}
	gaveUp := Work{Iteration: 1, Verdict: spec.VerdictOK, Abort: true}
	for name, happened := range map[string][]any{
		"the first was lost": {
			run.Began, nil, run.Ready,
			Made{},
			Baseline,
			Verdict{Gates: red},
			Took,
			Taken{ID: "a"},
			Iteration,
			Begun{Iteration: 1},
			Lost,
			Left{Task: "a"},
			Kept,
			Keep{Iteration: 1},
			Judged,
			Verdict{Iteration: 1, Gates: red},
			run.Ended,
			End{Status: run.Stalled},
			run.Began, nil, Took,
			Taken{ID: "b"},
		},
		"the first was done": {
			run.Began, nil, run.Ready,
			Made{},
			Baseline,
			Verdict{Gates: red},
			Took,
			Taken{ID: "a"},
			Iteration,
			Begun{Iteration: 1},
			Worked, worked,
			Kept,
			Keep{Iteration: 1},
			Judged,
			Verdict{Iteration: 1, Gates: green},
			Closed,
			Finished{Task: "a"},
			Kept,
			Keep{Iteration: 1},
			Judged,
			Verdict{Iteration: 1, Gates: green},
			run.Began, nil, Took,
			Taken{ID: "b"},
		},
		"the first was given up": {
			run.Began, nil, run.Ready,
			Made{},
			Baseline,
			Verdict{Gates: red},
			Took,
			Taken{ID: "a"},
			Iteration,
			Begun{Iteration: 1},
			Worked, gaveUp,
			Kept,
			Keep{Iteration: 1},
			Judged,
			Verdict{Iteration: 1, Gates: green},
			Lost,
			Left{Task: "a"},
			run.Began, nil, Took,
			Taken{ID: "b"},
		},
	} {
		s := fold(t, happened...)
		if step := Next(p, s, s.Last); step.Iterate != 2 {
			t.Errorf("%s: %+v", name, step)
		}
	}
}

// TestRewoundLate checks that a person's rewind of a loop without a carrier uses none of its time.
func TestRewoundLate(t *testing.T) {
	s := fold(t, run.Began, nil, run.Ready, Made{}, Rewound, Back{})
	if time.Duration(s.Elapsed) != time.Hour {
		t.Errorf("%s", time.Duration(s.Elapsed))
	}
}

// TestUnpriced checks that a model without a price is asked only once under a limit in USD: a new
// try makes no sense before a person has fixed that.
func TestUnpriced(t *testing.T) {
	work := Work{Iteration: 1, Verdict: spec.VerdictFailed, Error: "403", Unlisted: true}
	for _, worker := range []int{0, 1} {
		by := By{Worker: worker}
		work.By = by
		events := []any{run.Began, nil, Took, Taken{By: by, ID: "a"}, Iteration, Begun{By: by, Iteration: 1}, Worked, work}
		s := fold(t, events...)
		p := plan()
		if end := spentEnd(p, s, s.Last); end != nil {
			t.Errorf("worker %d, without a bound: %+v", worker, end)
		}
		p.Limits.USD = 9
		if end := spentEnd(p, s, s.Last); end == nil || end.Status != run.Failed || end.Reason != "unmetered" || !strings.Contains(end.Detail, "no price") {
			t.Errorf("worker %d: %+v", worker, end)
		}
		if s := fold(t, append(events, run.Began, nil)...); spentEnd(p, s, s.Last) != nil {
			t.Errorf("worker %d: it is not gone on with", worker)
		}
	}
}

// TestUnmetered checks that a loop with a budget needs known usage. The user who resumes it knows that
// it is unknown.
func TestUnmetered(t *testing.T) {
	seen, said, paid := &spec.BillItem{Answers: 1}, &spec.Claimed{Tokens: 7}, &spec.Claimed{Tokens: 7, USD: 1}
	for name, c := range map[string]struct {
		limits loopplan.Limits
		work   Work
		reason string
	}{
		"no bound":              {loopplan.Limits{}, Work{Verdict: spec.VerdictOK}, ""},
		"seen":                  {loopplan.Limits{Tokens: 99, USD: 9}, Work{Verdict: spec.VerdictOK, Seen: seen}, ""},
		"said":                  {loopplan.Limits{Tokens: 99}, Work{Verdict: spec.VerdictOK, Tokens: 7, Said: said}, ""},
		"nobody knows":          {loopplan.Limits{Tokens: 99}, Work{Verdict: spec.VerdictOK}, "unmetered"},
		"it failed":             {loopplan.Limits{Tokens: 99}, Work{Verdict: spec.VerdictFailed}, ""},
		"no money is said":      {loopplan.Limits{USD: 9}, Work{Verdict: spec.VerdictOK, Tokens: 7, Said: said}, "unmetered"},
		"the money is said":     {loopplan.Limits{USD: 9}, Work{Verdict: spec.VerdictOK, Tokens: 7, USD: 1, Said: paid}, ""},
		"no tokens, of a price": {loopplan.Limits{USD: 9}, Work{Verdict: spec.VerdictOK}, "unmetered"},
	} {
		p := plan()
		p.Limits.Tokens, p.Limits.USD = c.limits.Tokens, c.limits.USD
		for i := range 4 { // of the only worker or of one of several; of a worker or of a reviewer
			by, who := By{Worker: i % 2}, "the agent"
			c.work.By, c.work.Iteration = by, 1
			events := []any{run.Began, nil, Took, Taken{By: by, ID: "a"}, Iteration, Begun{By: by, Iteration: 1}, Worked, c.work}
			if i > 1 {
				done := Work{By: by, Iteration: 1, Verdict: spec.VerdictOK, Seen: seen, Done: true}
				review := Review{By: by, Gate: Gate{Name: "plain", Review: true}, Well: c.work.Verdict == spec.VerdictOK, Usage: usageOf(c.work)}
				events, who = append(events[:len(events)-1], done, Kept, Keep{By: by}, Judged, Verdict{By: by}, Reviewed, review), "the reviewer plain"
			}
			s := fold(t, events...)
			end := spentEnd(p, s, s.Last)
			if (end == nil) != (c.reason == "") || end != nil && (end.Reason != c.reason || end.Status != run.Failed || !strings.Contains(end.Detail, "the usage of "+who+" is unknown")) {
				t.Errorf("%s, worker %d, %s: %+v", name, by.Worker, who, end)
			}
			if s := fold(t, append(events, run.Began, nil)...); spentEnd(p, s, s.Last) != nil {
				t.Errorf("%s, worker %d, %s: it is not gone on with", name, by.Worker, who)
			}
		}
	}
}
