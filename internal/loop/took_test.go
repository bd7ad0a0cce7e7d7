package loop

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// fold gives how a loop stands after what has happened, an hour from one to the next.
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

// What came of one task says nothing of the next: it is worked at first.
func TestTookAnother(t *testing.T) {
	p := &Plan{Tasks: &Tasks{Tries: 3}, Stall: UsualStall, Limits: Limits{MaxIterations: 9}}
	green, red := []Gate{{Name: "a", Green: true}}, []Gate{{Name: "a", Why: "exit code 1"}}
	worked := Work{Iteration: 1, Verdict: spec.VerdictOK, Done: true}
	gaveUp := Work{Iteration: 1, Verdict: spec.VerdictOK, Abort: true}
	for name, happened := range map[string][]any{
		"the first was lost": {
			Began, nil, Ready,
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
			Ended,
			End{Status: Stalled},
			Began, nil, Took,
			Taken{ID: "b"},
		},
		"the first was done": {
			Began, nil, Ready,
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
			Began, nil, Took,
			Taken{ID: "b"},
		},
		"the first was given up": {
			Began, nil, Ready,
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
			Began, nil, Took,
			Taken{ID: "b"},
		},
	} {
		s := fold(t, happened...)
		if step := Next(p, s, s.Last); step.Iterate != 2 {
			t.Errorf("%s: %+v", name, step)
		}
	}
}

// What a person does to a loop that nobody carries on takes none of its time.
func TestRewoundLate(t *testing.T) {
	s := fold(t, Began, nil, Ready, Made{}, Rewound, Back{})
	if time.Duration(s.Elapsed) != time.Hour {
		t.Errorf("%s", time.Duration(s.Elapsed))
	}
}
