package loopplan

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/spec"
)

const gatesFile = `
protect: [tests]
gates:
  - {id: tests, command: make test, timeout: 5m}
  - id: report
    file: ./out/report.json
    validate:
      required_fields: [a.b]
      min_items: {list: 2}
      pattern: x
      json_schema: {type: object}
  - {id: there, file: LICENSE, validate: {exists: true}}
  - id: judge
    reviewer: {agent: codex, model: m, prompt: Is it plain?}
`

func TestReadGates(t *testing.T) {
	g, err := ReadGates([]byte(gatesFile))
	must(t, err)
	p := plan()
	p.Until, p.Gates, p.Protect = nil, g.Gates, g.Protect
	must(t, p.Check())
	cheap := p.Criteria()
	if len(cheap) != 3 || *cheap[0].Timeout != spec.Duration(5*time.Minute) || cheap[1].File != "out/report.json" || *cheap[1].Timeout != p.Limits.Gate {
		t.Errorf("it has %+v", cheap)
	}
	if list := p.Reviewers(); len(list) != 1 || p.JudgeTime(&list[0]) != usualReview || p.Reviewer("judge") != "codex (m)" {
		t.Errorf("it has %+v", list)
	}
	text := p.ChecksText()
	for _, want := range []string{
		"- tests: make test\n", "- report: the file out/report.json: it is JSON, with these fields, none of them null: a.b; its list list has at least 2 items; ",
		"- there: the file LICENSE\n", "- judge: a reviewer reads the work", "- tests must stay as it was",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it is not told %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "plain?") {
		t.Error("who works is told what the reviewer is asked")
	}
}

func TestBadGates(t *testing.T) {
	one := func(gate string) string { return "gates:\n- " + gate + "\n" }
	for text, want := range map[string]string{
		"":                                        "it is empty",
		"gates: []":                               "there are none",
		"gate: []":                                `unknown field "gate"`,
		"gates: []\ngates: []":                    "not YAML",
		one("{id: a, command: x, colour: red}"):   `unknown field "colour"`,
		one("{id: a, command: x, id: b}"):         "not YAML",
		one("{id: a}"):                            "gate a: one of command, file and reviewer",
		one("{id: a, command: x, file: y}"):       "one of command, file and reviewer",
		one("{command: x}"):                       "gate 1: id:",
		one("{id: \"a b\", command: x}"):          "id:",
		one("{id: a, command: \" \"}"):            "command: it is empty",
		one("{id: a, command: \"a\\0\"}"):         "zero byte",
		one("{id: a, command: x, timeout: -1s}"):  "timeout: -1s is not a positive time",
		one("{id: a, command: x, timeout: 0s}"):   "timeout: 0s is not a positive time: leave it out",
		one("{id: a, command: x, timeout: soon}"): "soon",
		one("{id: a, command: x, validate: {}}"):  "validate is for a file",
		one("{id: a, file: ../x}"):                "not a path in the working directory",
		one("{id: a, file: /etc/passwd}"):         "not a path in the working directory",
		one("{id: a, file: .}"):                   "not a path in the working directory",
		one("{id: a, file: x, validate: {json_schema: {type: text}}}"):                                "validate: json_schema",
		one("{id: a, file: x, validate: {pattern: (}}"):                                               "validate: pattern",
		one("{id: a, file: x, validate: {required: [a]}}"):                                            `unknown field "required"`,
		one("{id: a, reviewer: {prompt: p}}"):                                                         "agent is missing",
		one("{id: a, reviewer: {agent: x}}"):                                                          "prompt is missing",
		one("{id: a, reviewer: {agent: x, prompt: p, model: -m}}"):                                    "not the name of a model",
		one("{id: a, reviewer: {agent: x, prompt: p, verdict: pass}}"):                                `unknown field "verdict"`,
		one("{id: a, command: x}\n- {id: a, command: y}"):                                             "used twice",
		one("{id: a, reviewer: {agent: x, prompt: \"" + strings.Repeat("p", maxReviewing+1) + "\"}}"): "more than 32 KiB",
		one("{id: a, file: x, validate: {min_items: {rates: .nan}}}"):                                 "NaN",
		one("{id: a, file: x, validate: {json_schema: {minimum: -.inf}}}"):                            "Inf",
		"gates:" + strings.Repeat("\n- {id: a, command: x}", maxCriteria+1):                           "more than 50",
		strings.Repeat("#", MaxGates+1):                                                               "larger than",
	} {
		if _, err := ReadGates([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, not %q", text, err, want)
		}
	}
}

func TestWhoDecides(t *testing.T) {
	review := Criterion{ID: "judge", Reviewer: &Reviewer{Agent: "x", Prompt: "p"}}
	p := plan()
	p.Gates = []Criterion{review}
	must(t, p.Check())
	p.Until = nil
	if err := p.Check(); !errors.Is(err, spec.ErrUsage) || !strings.Contains(err.Error(), "only a reviewer") {
		t.Errorf("a reviewer alone: %v", err)
	}
	p.Gates = append(p.Gates, Criterion{ID: "there", File: "x"})
	must(t, p.Check())
	p.Gates = nil
	if err := p.Check(); !errors.Is(err, spec.ErrUsage) || !strings.Contains(spec.Hint(err), "gates FILE") {
		t.Errorf("nobody: %v", err)
	}
}

// TestDocumentedGates checks that the example in the documentation is valid.
func TestDocumentedGates(t *testing.T) {
	text, err := os.ReadFile("../../../docs/guide/gates.md")
	must(t, err)
	_, after, found := strings.Cut(string(text), "```yaml\n")
	example, _, closed := strings.Cut(after, "```")
	if !found || !closed {
		t.Fatal("there is none")
	}
	g, err := ReadGates([]byte(example))
	must(t, err)
	if len(g.Gates) < 3 {
		t.Errorf("it has %+v", g)
	}
}

func FuzzReadGates(f *testing.F) {
	f.Add([]byte(gatesFile))
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := ReadGates(data)
		if err == nil && (len(g.Gates) == 0 || checkCriteria(g.Gates) != nil) {
			t.Errorf("%+v", g)
		}
	})
}
