package loop

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bothy-dev/bothy/internal/loop/loopplan"
	"github.com/bothy-dev/bothy/internal/loop/taskqueue"
)

// TestPromptBounds checks gates and people that write more than an argument can hold, and bytes that no
// argument can hold.
func TestPromptBounds(t *testing.T) {
	p := plan()
	s := &State{Verdict: &Verdict{}}
	for i := range 40 {
		s.Verdict.Gates = append(s.Verdict.Gates, Gate{
			Name: fmt.Sprintf("gate-%d\x1b[2J", i), Why: "exit code 1\x00",
			Output: strings.Repeat("a line\x00 with \x07 bells\xff\n", 1000) + fmt.Sprintf("the end of %d", i),
		})
	}
	for i := range 20 {
		s.Hints = append(s.Hints, fmt.Sprintf("hint %d ", i)+strings.Repeat("é", 10<<10))
	}
	for _, template := range []string{loopplan.DefaultTemplate, "{{prompt}}" + strings.Repeat("{{gates}}{{context}}", 5)} {
		for _, n := range []int{1, 50 << 10, MaxTask - 2<<10} {
			p.Template, p.Prompt = template, strings.Repeat("w", n)
			text, told := Prompt(p, s, 1)
			if len(text) >= 128<<10 {
				t.Errorf("with a prompt of %d bytes it has %d", n, len(text))
			}
			if strings.ContainsAny(text, "\x00\x07\x1b") || !utf8.ValidString(text) {
				t.Error("it has bytes that nobody is to be told")
			}
			if told < 1 || told >= len(s.Hints) || !strings.Contains(text, "hint 0") || strings.Contains(text, fmt.Sprintf("hint %d ", told)) {
				t.Errorf("it is said to have %d hints", told)
			}
		}
	}
	p.Template, p.Prompt = loopplan.DefaultTemplate, "work"
	text, _ := Prompt(p, s, 1)
	for i := range 40 {
		if !strings.Contains(text, fmt.Sprintf("- gate-%d[2J: exit code 1\n", i)) || !strings.Contains(text, fmt.Sprintf("  | the end of %d\n", i)) {
			t.Errorf("gate %d does not have its say", i)
		}
	}
}

// TestPromptOneLine checks a gate that prints one line that is longer than its room.
func TestPromptOneLine(t *testing.T) {
	s := &State{Verdict: &Verdict{Gates: []Gate{{Name: "make", Why: "exit code 2", Output: strings.Repeat("x", maxGates) + "the end"}}}}
	text, _ := Prompt(plan(), s, 2)
	if !strings.Contains(text, "- make: exit code 2\n  | [...] xxx") || !strings.Contains(text, "xxxthe end\n\n# When it is done\n") {
		t.Errorf("it is told %.300s", text)
	}
}

// TestPromptWhole checks that a short prompt is complete.
func TestPromptWhole(t *testing.T) {
	p := plan()
	s := &State{Hints: []string{"one", "two\n{{prompt}}"}, Verdict: &Verdict{Gates: []Gate{{Name: "make", Why: "exit code 2", Output: "a\n\tb"}, {Name: "x", Green: true}}}}
	text, told := Prompt(p, s, 2)
	want := "# What people have to say\n\none\n\ntwo\n{{prompt}}\n\n# What the last check found\n\n- make: exit code 2\n  | a\n  | \tb\n\n# When it is done\n"
	if told != 2 || !strings.Contains(text, want) {
		t.Errorf("of %d hints:\n%s", told, text)
	}
}

// TestPromptOpenRalph checks the values of open-ralph's variables in a custom template.
func TestPromptOpenRalph(t *testing.T) {
	p := plan()
	p.Tasks = &loopplan.Tasks{Project: "/p", Tries: 3}
	p.Template = "{{prompt}}\n{{tasks}}{{context}}Iteration {{iteration}} of {{min_iterations}} to {{max_iterations}}: {{task_promise}}, {{completion_promise}}{{abort_promise}}\n"
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	p.Promise, p.Abort = "ALL", ""
	text, _ := Prompt(p, &State{Task: &Taken{ID: "bd-1", Title: "the first {{prompt}}", Text: "All of it.\n"}}, 2)
	if want := fmt.Sprintf("%s\n# bd-1: the first {{prompt}}\n\nAll of it.\nIteration 2 of %d to %d: ALL, ALL\n", p.Prompt, p.Limits.MinIterations, p.Limits.MaxIterations); text != want {
		t.Errorf("it is told\n%s\nand not\n%s", text, want)
	}
	if with := FixedSize(p); with < taskqueue.MaxText {
		t.Errorf("there is no room for a task: %d", with)
	}
}

// TestPromptRepeated checks prompts that end with a promise, as many do: an agent that repeats all of it
// has promised nothing.
func TestPromptRepeated(t *testing.T) {
	for _, promise := range []string{"COMPLETE", "NO"} {
		asked := "Work.\nWhen it is done, say\n\n```\n<promise>" + strings.ToLower(promise) + "</promise>\n```"
		for name, told := range map[string]struct {
			template, prompt string
			hints            []string
		}{
			"task":     {"Iteration {{iteration}}\n{{prompt}}\n", asked, nil},
			"hint":     {"{{prompt}}\n{{context}}", "work", []string{"else", asked}},
			"template": {"{{prompt}}\n**<promise>" + promise + "</promise>**", "work", nil},
		} {
			p := plan()
			p.Template, p.Prompt = told.template, told.prompt
			text, _ := Prompt(p, &State{Hints: told.hints}, 1)
			if promised(text, p.Promise) || promised(text, p.Abort) || promised(strings.TrimSpace(text), promise) {
				t.Errorf("%s: it ends with a promise:\n%s", name, text)
			}
			if !strings.Contains(strings.ToLower(text), "<promise>"+strings.ToLower(promise)+"</promise>") {
				t.Errorf("%s: the promise is not told:\n%s", name, text)
			}
		}
	}
	p := plan()
	p.Template = "{{prompt}}\n"
	if text, _ := Prompt(p, &State{}, 1); text != "work\n" {
		t.Errorf("there is no need for more than %q", text)
	}
}
