package loop

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

// TestTolls checks that each task counts the usage during which it was current, by any worker.
func TestTolls(t *testing.T) {
	one, two := By{Worker: 1}, By{Worker: 2}
	for name, c := range map[string]struct {
		happened []any
		want     []TaskCost
	}{
		"alone": {
			happened: []any{
				run.Began, nil, Baseline,
				Verdict{},
				Took,
				Taken{ID: "a"},
				Iteration,
				Begun{Iteration: 1},
				Cut,
				Work{Iteration: 1, Tokens: 1, USD: .5},
				run.Began, nil, Took,
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
			want: []TaskCost{{Task: "a", Iterations: 2, Tokens: 31, USD: .75}, {Task: "b", Iterations: 1, Tokens: 32, USD: 1}, {Task: "c"}},
		},
		"workers": {
			happened: []any{
				run.Began, nil, Baseline,
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
			want: []TaskCost{{Task: "a", Iterations: 2, Tokens: 6}, {Task: "b", Iterations: 1, Tokens: 1}},
		},
	} {
		events := eventsOf(t, c.happened)
		got, err := TaskCosts(events)
		must(t, err)
		for i := range got {
			got[i].Metered = spec.Metered{} // TestLedger checks it
		}
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

// TestLedger checks the usage of each iteration, whatever the results of its tries, as counted by the
// gateway and by the agent. An unknown figure has no number.
func TestLedger(t *testing.T) {
	seen := func(n int64) *spec.BillItem { return &spec.BillItem{Answers: 1, Tokens: spec.Tokens{Input: n}} }
	said := func(n int64) *spec.Claimed { return &spec.Claimed{Tokens: n} }
	two := By{Worker: 2}
	for name, c := range map[string]struct {
		happened []any
		want     map[int]string // by iterations; 0: all of them
	}{
		"tries, a crash and a reviewer": {
			happened: []any{
				run.Began, nil, Iteration,
				Begun{Iteration: 1},
				Cut,
				Work{Iteration: 1, Seen: seen(3)},
				run.Began, nil, Iteration,
				Begun{Iteration: 1},
				Worked,
				Work{Iteration: 1, Seen: seen(4), Said: said(4)},
				Iteration,
				Begun{Iteration: 2, Agent: "x", Model: "m"},
				run.Began, nil, Iteration,
				Begun{Iteration: 2, Agent: "y"},
				Worked,
				Work{Iteration: 2, Seen: seen(100), Said: said(50)},
				Judged,
				Verdict{Iteration: 2},
				Reviewing,
				Asking{Iteration: 2},
				Reviewed,
				Review{Iteration: 2, Usage: Usage{Seen: seen(10), Said: said(10)}},
				Iteration,
				Begun{Iteration: 3},
				Worked,
				Work{Iteration: 3, Said: said(5)},
				Iteration,
				Begun{Iteration: 4},
			},
			want: map[int]string{1: "7 4+", 2: "y 110+ 60+", 3: "- 5", 4: "- -", 0: "117+ 69+"},
		},
		"workers": {
			happened: []any{
				run.Began, nil, Took,
				Taken{By: By{Worker: 1}, ID: "a"},
				Took,
				Taken{By: two, ID: "b"},
				Iteration,
				Begun{By: By{Worker: 1}, Iteration: 1},
				Iteration,
				Begun{By: two, Iteration: 2},
				Worked,
				Work{By: two, Iteration: 2, Seen: seen(20), Said: said(2)},
				Worked,
				Work{By: By{Worker: 1}, Iteration: 1, Seen: seen(10), Said: said(10)},
				Iteration,
				Begun{By: By{Worker: 1}, Iteration: 3},
				run.Began, nil, Took,
				Taken{By: By{Worker: 1}, ID: "a"},
				Iteration,
				Begun{By: By{Worker: 1}, Iteration: 3},
			},
			want: map[int]string{1: "1 a 10 10", 2: "2 b 20 2!", 3: "1 a - -", 0: "30+ 12+"},
		},
	} {
		events := eventsOf(t, c.happened)
		list, err := Ledger(events)
		must(t, err)
		got := map[int]string{}
		for _, p := range list {
			text := sides(p.Metered)
			if p.Agent != "" {
				text = p.Agent + " " + text
			}
			if p.Worker > 0 {
				text = fmt.Sprint(p.Worker, " ", p.Task, " ", text)
			}
			got[p.Iteration] = text
		}
		s, err := Fold(events)
		must(t, err)
		got[0] = sides(s.Metered)
		if !maps.Equal(got, c.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// sides formats the token counts of both sides: with a + if there were more, and a ! if they differ.
func sides(m spec.Metered) string {
	side := func(a spec.Amount) string {
		text := "-"
		if a.Tokens != nil {
			text = fmt.Sprint(*a.Tokens)
		}
		return text + map[bool]string{true: "+"}[a.TokensPartly]
	}
	return side(m.Seen) + " " + side(m.Said) + map[bool]string{true: "!"}[m.Differ]
}

func eventsOf(t *testing.T, happened []any) (events []run.Event) {
	t.Helper()
	for i := 0; i < len(happened); i += 2 {
		data, err := json.Marshal(happened[i+1])
		must(t, err)
		events = append(events, run.Event{Seq: int64(i), Time: time.Unix(int64(i), 0), Type: happened[i].(string), Data: data})
	}
	return events
}

// TestLedgerWork checks how long agents worked in all tries of an iteration, their tool calls, and
// the files they changed in the end.
func TestLedgerWork(t *testing.T) {
	list, err := Ledger(eventsOf(t, []any{
		run.Began, nil, Iteration,
		Begun{Iteration: 1},
		Cut,
		Work{Iteration: 1, Seconds: 2, Calls: 3},
		Iteration,
		Begun{Iteration: 1},
		Worked,
		Work{Iteration: 1, Seconds: 5, Calls: 4},
		Kept,
		Keep{Iteration: 1, Changes: 6},
		Iteration,
		Begun{Iteration: 2},
	}))
	must(t, err)
	if len(list) != 2 || list[0].Seconds != 7 || list[0].Calls != 7 || list[0].Changes != 6 || list[1].Seconds != 0 {
		t.Errorf("%+v", list)
	}
}
