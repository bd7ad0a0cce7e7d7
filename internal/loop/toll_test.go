package loop

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// TestTolls counts for each task what was taken while it was in hand, by whoever had it.
func TestTolls(t *testing.T) {
	one, two := By{Worker: 1}, By{Worker: 2}
	for name, c := range map[string]struct {
		happened []any
		want     []Toll
	}{
		"alone": {
			happened: []any{
				Began, nil, Baseline,
				Verdict{},
				Took,
				Taken{ID: "a"},
				Iteration,
				Begun{Iteration: 1},
				Cut,
				Work{Iteration: 1, Tokens: 1, USD: .5},
				Began, nil, Took,
				Taken{ID: "a"},
				Iteration,
				Begun{Iteration: 1},
				Worked,
				Work{Iteration: 1, Verdict: spec.VerdictLimit, Tokens: 2},
				Iteration,
				Begun{Iteration: 1},
				Worked,
				Work{Iteration: 1, Tokens: 4},
				Kept,
				Keep{Iteration: 1},
				Judged,
				Verdict{Iteration: 1},
				Iteration,
				Begun{Iteration: 2},
				Worked,
				Work{Iteration: 2, Tokens: 8},
				Kept,
				Keep{Iteration: 2},
				Judged,
				Verdict{Iteration: 2},
				Reviewing,
				Asking{Iteration: 2, Gate: "g"},
				Reviewed,
				Review{Iteration: 2, Usage: Usage{Tokens: 16, USD: .25}},
				Closed,
				Finished{Task: "a"},
				Took,
				Taken{ID: "b"},
				Iteration,
				Begun{Iteration: 3},
				Worked,
				Work{Iteration: 3, Tokens: 32, USD: 1},
				PutBack,
				Left{Task: "b"},
				Took,
				Taken{ID: "c"},
			},
			want: []Toll{{"a", 2, 31, .75}, {"b", 1, 32, 1}, {"c", 0, 0, 0}},
		},
		"workers": {
			happened: []any{
				Began, nil, Baseline,
				Verdict{},
				Took,
				Taken{By: one, ID: "a"},
				Took,
				Taken{By: two, ID: "b"},
				Iteration,
				Begun{By: one, Iteration: 1},
				Iteration,
				Begun{By: two, Iteration: 2},
				Worked,
				Work{By: two, Iteration: 2, Tokens: 1},
				Worked,
				Work{By: one, Iteration: 1, Tokens: 2},
				PutBack,
				Left{By: one, Task: "a", Again: true},
				Took,
				Taken{By: two, ID: "a", Base: 3},
				Iteration,
				Begun{By: two, Iteration: 3},
				Worked,
				Work{By: two, Iteration: 3, Tokens: 4},
			},
			want: []Toll{{"a", 2, 6, 0}, {"b", 1, 1, 0}},
		},
	} {
		var events []run.Event
		for i := 0; i < len(c.happened); i += 2 {
			data, err := json.Marshal(c.happened[i+1])
			must(t, err)
			events = append(events, run.Event{Seq: int64(i), Time: time.Unix(int64(i), 0), Type: c.happened[i].(string), Data: data})
		}
		got, err := Tolls(events)
		must(t, err)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v", name, got)
		}
		s, err := Fold(events)
		must(t, err)
		tokens, usd := int64(0), 0.0
		for _, x := range got {
			tokens, usd = tokens+x.Tokens, usd+x.USD
		}
		if tokens != s.Tokens || math.Abs(usd-s.USD) > 1e-9 {
			t.Errorf("%s: %d tokens, %v USD, and all is %d, %v", name, tokens, usd, s.Tokens, s.USD)
		}
	}
}
