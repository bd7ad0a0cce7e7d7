package flowplan

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// TestReadList checks the known forms of a prd.json.
func TestReadList(t *testing.T) {
	list, err := readList([]byte(`{
  "project": "p", "branchName": "b",
  "userStories": [
    {"id": "US-003", "title": "third", "priority": 9, "passes": false},
    {"id": "US-001", "title": "first", "description": "d", "acceptanceCriteria": ["it is", "it $(runs) ${{ sandbox }}"], "priority": 1, "passes": false, "notes": "n"},
    {"id": "US-002", "title": "second", "priority": 2, "passes": true}
  ]}`))
	must(t, err)
	first := Element{ID: "US-001", Values: map[string]string{
		"id": "US-001", "title": "first", "description": "d", "criteria": "- it is\n- it $(runs) ${{ sandbox }}", "priority": "1", "passes": "false", "notes": "n", "tool": "",
	}}
	if len(list.Elements) != 2 || list.Elements[1].ID != "US-003" || list.Elements[1].Values["notes"] != "" || !slices.Equal(list.Passed, []string{"US-002"}) || len(list.SHA256) != 64 {
		t.Errorf("it is %+v", list)
	}
	if got := list.Elements[0]; got.ID != first.ID || !maps.Equal(got.Values, first.Values) {
		t.Errorf("the first is %+v", got)
	}
	list, err = readList([]byte(`{"title": "t", "stories": [{"id": 2, "title": "b", "acceptance": "one"}, {"id": "1", "acceptance_criteria": ["x"], "priority": 0, "tool": "codex"}]}`))
	must(t, err)
	if list.Elements[0].ID != "1" || list.Elements[0].Values["criteria"] != "- x" || list.Elements[0].Values["tool"] != "codex" || list.Elements[1].ID != "2" || list.Elements[1].Values["criteria"] != "- one" {
		t.Errorf("it is %+v", list)
	}
	for text, want := range map[string]string{
		"":                                   "ends too early",
		"{}":                                 "it has no list",
		`{"stories": [], "userStories": []}`: "more than one",
		`{"stories": {}}`:                    "stories is not a list",
		`[]`:                                 "it has 0 elements",
		`["a"]`:                              "element 1 is not an object",
		`[{"title": "a"}]`:                   "element 1: it has no id",
		`[{"id": "a\n"}]`:                    "of more than a line",
		`[{"id": " "}]`:                      "element 1: it has no id",
		`[{"id": "a"}, {"id": "a"}]`:         "element 2: its id \"a\" is that of another one",
		`[{"id": "a", "passes": "yes"}]`:     "passes is yes",
		`[{"id": "a", "priority": "high"}]`:  "priority is high",
		`[{"id": ["a"]}]`:                    "neither a text nor a number",
		`[{"id": 9007199254740993}]`:         "put it in quotes",
		`[{"id": true}]`:                     "neither a text nor a number",
		`[{"id": "a", "title": "a\u0000"}]`:  "title has a zero byte",
		`[{"id": "a", "id": "b"}]`:           "occurs in it twice",
		`[{"id": "x`:                         "EOF",
		`[{"id":"` + strings.Repeat("x", 101) + `"}]`:                    "of more than 100 bytes",
		`[{"id":"a","notes":"` + strings.Repeat("x", MaxValue+1) + `"}]`: "notes has more than 32 KiB",
		`[` + strings.Repeat(`{},`, maxElements) + `{}]`:                 "it has 201 elements",
	} {
		if _, err := readList([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, not %q", text, err, want)
		}
	}
}

// TestLists checks that a list that does not fit the steps is refused before anything is made.
func TestLists(t *testing.T) {
	for _, tt := range []struct{ step, list, want string }{
		{"prompt: '${{ each.colour }}'", `[{"id": "a", "colour": "red"}, {"id": "b"}]`, "the element b has no colour"},
		{"prompt: p, if: \"each.colour == 'red'\"", `[{"id": "a"}]`, "the element a has no colour"},
		{"prompt: p, output: '${{ each.id }}.md'", `[{"id": "../a"}]`, "not a path below outputs/"},
		{"prompt: p, output: '${{ each.id }}.md'", `[{"id": "a b"}]`, "may stand in it"},
		{"prompt: p, output: 'x/${{ each.title }}'", `[{"id": "a", "title": "t"}, {"id": "b", "title": "t"}]`, "in the way of x/t"},
		{"prompt: p, output: '${{ each.id }}'", `[{"id": "plan.md"}]`, "in the way of plan.md"},
	} {
		p := &Plan{Agent: "mine", Values: map[string]string{}, Files: []string{"l.json"}}
		p.Flow = parse(t, "name: n\ninputs: [{name: l, file: l.json, required: true}]\nsteps: [{id: plan, prompt: p, output: plan.md}, {id: g, each: l, steps: [{id: s, "+tt.step+"}]}]\n")
		if err := p.Check(map[string][]byte{"l.json": []byte(tt.list)}); !errors.Is(err, spec.ErrUsage) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s of %s: %v, not %q", tt.step, tt.list, err, tt.want)
		}
	}
}

// TestTooManySteps checks that steps are counted before their outputs are compared: there would be
// millions.
func TestTooManySteps(t *testing.T) {
	var text, list strings.Builder
	text.WriteString("name: n\ninputs: [{name: l, file: l.json, required: true}]\nsteps:\n")
	for g := range 2 {
		fmt.Fprintf(&text, "- {id: g%d, each: l, steps: [", g)
		for i := range 100 {
			fmt.Fprintf(&text, "{id: s%d-%d, prompt: p, output: 'g%d/s%d/${{ each.number }}'},", g, i, g, i)
		}
		text.WriteString("]}\n")
	}
	for i := range maxElements {
		fmt.Fprintf(&list, ",{\"id\": %d}", i)
	}
	p := &Plan{Agent: "mine", Values: map[string]string{}, Files: []string{"l.json"}, Flow: parse(t, text.String())}
	err := p.Check(map[string][]byte{"l.json": []byte("[" + list.String()[1:] + "]")})
	if !errors.Is(err, spec.ErrUsage) || !strings.Contains(err.Error(), "40000 steps") {
		t.Error(err)
	}
}

// TestNeedsOfElements checks which needs of elements are refused.
func TestNeedsOfElements(t *testing.T) {
	for text, want := range map[string]string{
		`[{"id": "a", "needs": ["b"]}, {"id": "b", "needs": ["a"]}]`:                              "the element a needs one that needs it",
		`[{"id": "z", "needs": ["x"]}, {"id": "x", "needs": ["y"]}, {"id": "y", "needs": ["x"]}]`: "the element x needs one that needs it",
		"\uFEFF[{\"id\": \"a\"}]":       "it begins with a byte order mark",
		`[{"id": "a", "needs": ["x"]}]`: `needs "x", which is not there`,
		`[{"id": "a", "needs": "b"}]`:   "needs is not a list of ids",
	} {
		if _, err := readList([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
