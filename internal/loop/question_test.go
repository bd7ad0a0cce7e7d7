package loop

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/run"
	"github.com/bothy-dev/bothy/spec"
)

func TestAsks(t *testing.T) {
	for message, want := range map[string]bool{
		"Shall I delete the table?":                         true,
		"I can do A or B.\n\n**Which one do you want?**\n":  true,
		"Done with the parser.\nPlease confirm the schema.": true,
		"どちらにしますか？":                                         true,
		"(Is that right?)":                                  true,
		"Is it right? I think so, and went on.":             false,
		"What is left? The tests.\nStill to do: the tests.": false,
		"Let me know if you need anything else.":            false,
		"see https://example.com/?q=1":                      false,
		"":                                                  false,
	} {
		if got := asksPerson(message); got != want {
			t.Errorf("%q: %v", message, got)
		}
	}
	if got := question("a\n\nI see two ways:\n- one\n- two\nWhich?\x1b[2J\n"); got != "I see two ways:\n- one\n- two\nWhich?[2J" {
		t.Errorf("the question is %q", got)
	}
	if got := question(strings.Repeat("é", maxQuestion)); len(got) > maxQuestion {
		t.Errorf("it has %d bytes", len(got))
	}
}

// TestQuestion checks that a loop waits for a person when the agent asks twice, and continues
// afterwards.
func TestQuestion(t *testing.T) {
	p := plan()
	p.Stall.SameRed = 0
	f := &fake{changes: func(int) int { return 1 }, green: func(int) bool { return false }}
	f.work = func(int) (Work, error) { return says("I see two ways.\n\nWhich table?") }
	s, r := carry(t, p, f)
	if s.Status != run.Waiting || s.Reason != "question" || s.Question != "Which table?" || s.Iteration != 2 || s.ExitCode() != spec.ExitWaiting {
		t.Fatalf("it is %+v", s)
	}
	f.work = func(n int) (Work, error) {
		if n == 4 {
			return says("I went on.")
		}
		return says("Which one?")
	}
	if s = goOn(t.Context(), t, p, f, r); s.Reason != "question" || s.Iteration != 6 {
		t.Errorf("with something else in between it is %+v", s)
	}
	// Iterations that ended with a question changed no file. After an answer all tries are
	// available again.
	f.changes = func(int) int { return 0 }
	f.work = func(int) (Work, error) { return says("Which one?") }
	_, r = carry(t, p, f)
	f.work = func(int) (Work, error) { return says("I look at it.") }
	if s = goOn(t.Context(), t, p, f, r); s.Reason != "unchanged" || s.Iteration != 2+p.Stall.Unchanged {
		t.Errorf("after an answer it is %+v", s)
	}
	f.changes, f.work = func(int) int { return 1 }, func(int) (Work, error) { return says("Which one?") }
	p.Stall.Questions = 0
	if s, _ = carry(t, p, f); s.Reason != "iterations" {
		t.Errorf("if nobody wants to be asked it is %+v", s)
	}
}

func TestModels(t *testing.T) {
	p := plan()
	p.Models, p.Limits.MaxIterations = []string{"one", "two"}, 3
	f := &fake{work: func(int) (Work, error) { return says("no") }, changes: func(int) int { return 1 }, green: func(int) bool { return false }}
	if s, _ := carry(t, p, f); !slices.Equal(f.models, []string{"one", "two", "one"}) || s.Model != "one" {
		t.Errorf("it was %q, and is %q", f.models, s.Model)
	}
	turns, err := loopplan.Rotate("claude:opus, claude:a/b:free")
	if err != nil || !slices.Equal(turns, []loopplan.Turn{{Agent: "claude", Model: "opus"}, {Agent: "claude", Model: "a/b:free"}}) {
		t.Errorf("it is %v, %v", turns, err)
	}
	if p.Rotate(turns); p.Agent != "claude" || p.Agents != nil || !slices.Equal(p.Models, []string{"opus", "a/b:free"}) {
		t.Errorf("the plan is %+v", p)
	}
	for _, bad := range []string{"", "claude", ":opus", "claude:", "claude:--x", "claude:a,"} {
		if _, err := loopplan.Rotate(bad); err == nil {
			t.Errorf("%q is a rotation", bad)
		}
	}
}

// TestRotation checks that agents take turns, each at its own seat. An interrupted agent continues with
// its own files; the next agent begins with the current files.
func TestRotation(t *testing.T) {
	p := plan()
	p.Rotate([]loopplan.Turn{{Agent: "a", Model: "one"}, {Agent: "b", Model: "two"}, {Agent: "a", Model: "three"}})
	p.Limits.MaxIterations, p.Limits.Tokens = 5, 1000
	tries := 0
	f := &fake{work: func(n int) (Work, error) {
		if tries++; n == 2 {
			return Work{Verdict: spec.VerdictLimit, Tokens: 10}, nil
		}
		return says("no")
	}, changes: func(int) int { return 1 }, green: func(int) bool { return false }}
	synctest.Test(t, func(t *testing.T) {
		s, _ := carry(t, p, f)
		if s.Agent != "b" || s.Iteration != 5 {
			t.Errorf("it ended with %s in iteration %d", s.Agent, s.Iteration)
		}
	})
	seats := func(names ...string) (list []Seat) {
		for _, n := range names {
			list = append(list, Seat{Agent: n})
		}
		return list
	}
	if want := seats("a", "b", "a", "a", "b"); !slices.Equal(f.begun, want) {
		t.Errorf("the places were filled for %v, want %v", f.begun, want)
	}
	if want := seats("a", "b", "b", "a", "a", "b"); !slices.Equal(f.seats, want) {
		t.Errorf("%v worked, want %v", f.seats, want)
	}
	if want := append(seats(""), seats("a", "b", "a", "a", "b")...); !slices.Equal(f.kept, want) {
		t.Errorf("what was kept is of %v, want %v", f.kept, want)
	}
	if want := []int64{1000, 990, 980, 970, 960, 950}; !slices.Equal(f.rest, want) {
		t.Errorf("models could take %v, want %v", f.rest, want)
	}
}
