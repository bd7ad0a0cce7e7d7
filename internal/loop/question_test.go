package loop

import (
	"slices"
	"strings"
	"testing"
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
		if got := asks(message); got != want {
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

// TestQuestion waits for a person when the agent asks twice, and goes on afterwards.
func TestQuestion(t *testing.T) {
	p := plan()
	p.Stall.SameRed = 0
	f := &fake{changes: func(int) int { return 1 }, green: func(int) bool { return false }}
	f.work = func(int) (Work, error) { return says("I see two ways.\n\nWhich table?") }
	s, r := carry(t, p, f)
	if s.Status != Waiting || s.Reason != "question" || s.Question != "Which table?" || s.Iteration != 2 || s.ExitCode() != 3 {
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
	agent, models, err := Rotate("claude:opus, claude:a/b:free")
	if err != nil || agent != "claude" || !slices.Equal(models, []string{"opus", "a/b:free"}) {
		t.Errorf("it is %s with %q, %v", agent, models, err)
	}
	for _, bad := range []string{"", "claude", ":opus", "claude:", "claude:opus,codex:gpt", "claude:--x", "claude:a,"} {
		if _, _, err := Rotate(bad); err == nil {
			t.Errorf("%q is a rotation", bad)
		}
	}
}
