package flowplan

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	f := parse(t, `
name: kit
version: 2
inputs:
  - {name: article, file: content.md, required: true}
  - {name: tone, default: dry}
steps:
  - id: summary
    prompt: Sum ${{ inputs.article }} up.
    inputs: [inputs/content.md]
    output: outputs/summary.json
    validate: {required_fields: [headline], json_schema: {type: object}}
  - id: draft
    needs: [summary]
    matrix: {tone: [dry, warm], n: [1, 2]}
    prompt: "Write a ${{ matrix.tone }} one: ${{ steps.summary.output }}"
    output: drafts/${{ matrix.tone }}-${{ matrix.n }}.md
    if: success() && inputs.tone == 'dry'
  - id: check
    needs: [draft]
    command: wc -l "$DRAFTS"
    env: {DRAFTS: "${{ steps.draft.output }}", N: 3, YES: true}
    timeout: 30s
    retry: 1
  - id: good
    needs: [check]
    approval: {message: "Good? ${{ steps.summary.output }}"}
`)
	nodes := (&Plan{Flow: f}).Nodes()
	var ids []string
	for _, n := range nodes {
		ids = append(ids, n.ID)
	}
	if got := strings.Join(ids, " "); got != "summary draft.1 draft.2 draft.3 draft.4 check good" {
		t.Errorf("nodes %s", got)
	}
	if n := nodes[3]; n.Output != "drafts/dry-2.md" && n.Output != "drafts/warm-1.md" {
		t.Errorf("the third draft is %s", n.Output)
	}
	if got := strings.Join(nodes[5].Needs, " "); got != "draft.1 draft.2 draft.3 draft.4" {
		t.Errorf("check needs %s", got)
	}
	if f.Version != "2" || f.Steps[2].Env["N"] != "3" || f.Steps[2].Env["YES"] != "true" || f.Steps[2].Retries() != 1 || f.Steps[0].Retries() != 2 {
		t.Errorf("it is %+v", f)
	}
}

// TestLint checks flows with one mistake each.
func TestLint(t *testing.T) {
	const copies = "{id: a, matrix: {m: [1, 2]}, prompt: p, copy: true, output: 'a${{ matrix.m }}'}"
	const good = "{id: a, prompt: p, output: a.md}"
	for _, tt := range []struct{ steps, want string }{
		{"", "there are 0"},
		{good + ", {id: a, prompt: p}", "used twice"},
		{"{id: a, prompt: p}, {id: query-a, command: c}", "a and query-a cannot be in one flow"},
		{"{id: query-a, command: c}, {id: a, prompt: p}", "a and query-a cannot be in one flow"},
		{"{id: 1a, prompt: p}", "is not a name"},
		{"{id: a.b, prompt: p}", "is not a name"},
		{"{id: a}", "one of prompt, command, approval, question"},
		{"{id: a, prompt: p, command: c}", "one of prompt, command, approval, question"},
		{"{id: a, promt: p}", `unknown field "promt"`},
		{"{id: a, prompt: p, needs: [b]}, {id: b, prompt: p}", "b does not stand before it"},
		{"{id: a, prompt: p, needs: [a]}", "a does not stand before it"},
		{"{id: a, prompt: p, needs: [x]}", "no step is called x"},
		{"{id: a, prompt: '${{ steps.b.output }}'}, {id: b, prompt: p, output: b.md}", "steps.b is not a step that it needs"},
		{good + ", {id: b, prompt: '${{ steps.a.output }}'}", "steps.a is not a step that it needs"},
		{good + ", {id: b, needs: [a], command: c}, {id: c, needs: [b], command: c, env: {A: '${{ steps.a.output }}'}}", "env: A: what a puts out is not among the files that the step gets"},
		{good + ", {id: b, needs: [a], inputs: [], prompt: '${{ steps.a.output }}'}", "prompt: what a puts out is not among the files that the step gets"},
		{"{id: a, prompt: p}, {id: b, needs: [a], prompt: '${{ steps.a.output }}'}", "the step a has no output"},
		{"{id: a, prompt: '${{ inputs.x }}'}", "no input is called x"},
		{"{id: a, prompt: '${{ env.HOME }}'}", "means nothing"},
		{"{id: a, prompt: '${{ matrix.x }}'}", "the step has no matrix.x"},
		{"{id: a, prompt: '${{ matrix.x'}", "without }}"},
		{"{id: a, command: 'echo ${{ inputs.t }}'}", "is not put into the text of a command"},
		{"{id: a, command: c, agent: b}", "a command has no agent"},
		{"{id: a, command: c, env: {A-B: c}}", "not the name of a variable"},
		{"{id: a, command: c, env: {BOTHY_OUTPUT: c}}", "not the name of a variable"},
		{"{id: a, prompt: p, output: ../a}", "not a path below outputs/"},
		{"{id: a, prompt: p, output: /etc/passwd}", "not a path below outputs/"},
		{"{id: a, prompt: p, output: .git/config}", "may stand in it"},
		{good + ", {id: b, prompt: p, output: outputs/a.md}", "in the way of a.md"},
		{"{id: a, prompt: p, output: x}, {id: b, prompt: p, output: x/y}", "in the way of x"},
		{"{id: a, matrix: {m: [1, 2]}, prompt: p, output: x}", "in the way of x"},
		{"{id: a, matrix: {m: [a/../b]}, prompt: p, output: 'x/${{ matrix.m }}'}", "not a path below"},
		{"{id: a, matrix: {m: []}, prompt: p}", "m has no values"},
		{"{id: a, matrix: {m: [1,2,3,4,5,6,7,8,9], n: [1,2,3,4,5,6,7,8]}, prompt: p}", "more than 64 times"},
		{"{id: a, matrix: {m: [1.5]}, prompt: p}", "put it in quotes"},
		{"{id: a, matrix: {m: {list: t, count: t}}, prompt: p}", "one of list, count and turn with an input"},
		{"{id: a, matrix: {m: {each: '${{ inputs.t }}'}}, prompt: p}", "write list, count or turn"},
		{"{id: a, matrix: {m: {list: 'a,b'}}, prompt: p}", "is not ${{ inputs.NAME }}"},
		{"{id: a, matrix: {m: {list: '${{ inputs.l }}'}}, prompt: p}", "no text input is called l"},
		{"{id: a, matrix: {m: {list: '${{ inputs.nosuch }}'}}, prompt: p}", "no text input is called nosuch"},
		{"{id: a, matrix: {m: {turn: '${{ inputs.t }}'}}, prompt: p}", "nothing in it makes times"},
		{"{id: a, matrix: {n: {count: '${{ inputs.t }}'}, m: {turn: '${{ inputs.t }}'}}, prompt: p, output: '${{ matrix.m }}'}", "in the way of a"},
		{"{id: a, matrix: {n: {count: '${{ inputs.t }}'}}, prompt: p, output: x}", "in the way of x"},
		{"{id: a, prompt: p, validate: {required_fields: [x]}}", "validate: the step has no output"},
		{"{id: a, prompt: p, output: x, validate: {required_field: [x]}}", `unknown field "required_field"`},
		{"{id: a, prompt: p, output: x, validate: {pattern: '('}}", "missing closing"},
		{"{id: a, prompt: p, output: x, validate: {json_schema: {$ref: 'http://example.com'}}}", "leads out of the document"},
		{"{id: a, prompt: p, final: true}", "the step has no output"},
		{"{id: a, prompt: p, output: x, final: true}, {id: b, prompt: p, output: y, final: true}", "are both final"},
		{"{id: a, prompt: p, retry: 11}", "not from 0 to 10"},
		{"{id: a, prompt: p, timeout: -1s}", "timeout: -1s is not a positive time"},
		{"{id: a, prompt: p, timeout: 0s}", "timeout: 0s is not a positive time: leave it out"},
		{"{id: a, approval: {message: ''}}", "the message is missing"},
		{"{id: a, approval: {message: m}, output: x}", "and nothing else"},
		{"{id: a, approval: {message: m}, env: {A: b}}", "and nothing else"},
		{"{id: a, question: {message: m}}", "the output is missing"},
		{"{id: a, question: {message: ' '}, output: x}", "the message is missing"},
		{"{id: a, prompt: p, if: 'steps.b.status == 1'}", "is not expected"},
		{"{id: a, prompt: p, if: \"steps.b.status == 'failed'\"}", "steps.b is not a step that it needs"},
		{"{id: a, prompt: p, if: \"inputs.x == 'failed'\"}", "no input is called x"},
		{"{id: a, prompt: p, if: 'system()'}", "system() is unknown"},
		{"{id: a, prompt: p, if: \"sandbox == 'x'\"}", "cannot be compared"},
		{"{id: a, prompt: p, inputs: [inputs/x]}", "not among the inputs"},
		{"{id: a, prompt: p, inputs: [/etc/passwd]}", "neither inputs/NAME nor"},
		{"{id: a, each: l}", "a group has each, and 1 to 100 steps"},
		{"{id: a, steps: [{id: b, prompt: p}]}", "a group has each, and 1 to 100 steps"},
		{"{id: a, each: t, steps: [{id: b, prompt: p}]}", "each: t is not a required input that is a file"},
		{"{id: a, each: o, steps: [{id: b, prompt: p}]}", "each: o is not a required input that is a file"},
		{"{id: a, each: l, retry: 1, steps: [{id: b, prompt: p}]}", "has id, needs, each, passes, recheck and steps, and nothing else"},
		{"{id: a, prompt: p, recheck: true}", "recheck: it is for a group"},
		{"{id: a, each: l, prompt: p, steps: [{id: b, prompt: p}]}", "it needs one of"},
		{"{id: a, each: l, steps: [{id: b, each: l, steps: [{id: c, prompt: p}]}]}", "step b: a group is in no other group"},
		{"{id: a, each: l, steps: [{id: a, prompt: p}]}", "used twice"},
		{"{id: a, each: l, steps: [{id: b, prompt: p, matrix: {m: [1]}}]}", "has no matrix"},
		{"{id: a, each: l, steps: [{id: b, prompt: p, output: x, final: true}]}", "is not final"},
		{"{id: a, each: l, steps: [{id: b, prompt: p, output: x}]}", "in the way of x"},
		{"{id: a, each: l, steps: [{id: b, prompt: p, output: '${{ inputs.t }}'}]}", "only what varies"},
		{"{id: a, each: l, steps: [{id: b, prompt: p, needs: [a]}]}", "no step is called a"},
		{"{id: a, each: l, steps: [{id: b, prompt: p, needs: [c]}, {id: c, prompt: p}]}", "c does not stand before it"},
		{good + ", {id: g, each: l, steps: [{id: b, prompt: p, needs: [a]}]}", "a is not in the same group"},
		{good + ", {id: g, each: l, steps: [{id: b, prompt: '${{ steps.a.output }}'}]}", "steps.a is not a step that it needs"},
		{"{id: g, each: l, steps: [{id: b, prompt: p}]}, {id: c, needs: [b], prompt: p}", "b is not in the same group"},
		{"{id: a, prompt: '${{ each.id }}'}", "each.id has no meaning outside of a group"},
		{good + ", {id: b, command: c, back: {to: a}}", "back: a is not a step that it needs"},
		{good + ", {id: b, command: c, back: {to: x}}", "back: x is not a step that it needs"},
		{"{id: a, prompt: p, back: {to: a}}", "back: a is not a step that it needs"},
		{"{id: a, command: c}, {id: b, needs: [a], command: c, back: {to: a}}", "a is not a prompt"},
		{good + ", {id: b, needs: [a], matrix: {m: [1]}, command: c, back: {to: a}}", "does not go with a matrix"},
		{good + ", {id: b, needs: [a], command: c, back: {to: a, times: 0}}", "not from 1 to 10"},
		{good + ", {id: b, needs: [a], command: c, back: {to: a, times: 11}}", "not from 1 to 10"},
		{good + ", {id: b, needs: [a], question: {message: m}, output: x, back: {to: a}}", "it does not fail"},
		{good + ", {id: g, needs: [a], each: l, steps: [{id: b, command: c, back: {to: a}}]}", "a is not in the same group"},
		{"{id: a, prompt: p, fresh: true}", "fresh: it is for a command"},
		{"{id: a, prompt: p, copy: true, matrix: {m: [1]}}, {id: b, command: c, of: a, fresh: true}", "who judges a copy is that already"},
		{"{id: a, prompt: p, copy: true}", "copy: it is for a prompt with a matrix"},
		{"{id: a, command: c, matrix: {m: [1]}, copy: true}", "copy: it is for a prompt with a matrix"},
		{"{id: a, command: c, of: b}", "no step is called b"},
		{"{id: a, prompt: p}, {id: b, command: c, of: a}", "a is not an earlier step that works in copies"},
		{copies + ", {id: b, prompt: p, of: a}", "of: it is for a command without matrix and inputs"},
		{copies + ", {id: b, command: c, of: a, matrix: {n: [1]}}", "of: it is for a command without matrix and inputs"},
		{copies + ", {id: b, command: c, of: a, env: {A: '${{ steps.a.output }}'}}", "who judges a copy gets no files"},
		{copies + ", {id: b, command: c, of: a, env: {A: '${{ inputs.l }}'}}", "who judges a copy gets no files"},
		{copies + ", {id: b, command: c, of: a, env: {A: '${{ sandbox }}'}}", "who judges a copy gets no files"},
		{copies + ", {id: b, command: c, of: a, env: {A: '${{ matrix.n }}'}}", "the step has no matrix.n"},
		{copies + ", {id: b, command: c, of: a, output: x}", "in the way of x"},
		{"{id: a, prompt: p, agent: '${{ inputs.o }}'}", "the input o is a file"},
		{"{id: a, prompt: p, agent: '${{ inputs.x }}'}", "no input is called x"},
		{"{id: a, prompt: p, agent: '${{ sandbox }}'}", "only an input, and what varies"},
		{"{id: a, prompt: p, model: '${{ matrix.x }}'}", "the step has no matrix.x"},
		{"&x {id: a, prompt: p}, *x", "names for parts"},
	} {
		_, err := Parse("flow.yaml", []byte("name: n\ninputs: [{name: t}, {name: l, file: l.json, required: true}, {name: o, file: o.json}]\nsteps: ["+tt.steps+"]\n"))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, not %q", tt.steps, err, tt.want)
		}
	}
	for text, want := range map[string]string{
		"name: a\n---\nname: b\n":                                               "more than one document",
		"name: a\nname: b\nsteps: []\n":                                         "not YAML",
		"steps: [{id: a, prompt: p}]":                                           "a short name is missing",
		strings.Repeat("[", 100_000):                                            "nested too deeply",
		"name: " + strings.Repeat("x", maxFile):                                 "larger than 256 KiB",
		"name: n\ninputs: [{name: a, file: ../x}]\nsteps: []":                   "there are 0",
		"name: n\ninputs: [{name: a, file: ../x}]\nsteps: [{id: a, prompt: p}]": "not a plain file name",
		"name: n\ninputs: [{name: a}, {name: a}]\nsteps: [{id: a, prompt: p}]":  "twice",
	} {
		if _, err := Parse("flow.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, not %q", text, err, want)
		}
	}
}

func TestMarkdown(t *testing.T) {
	f, err := Parse("kit.md", []byte(`---
name: writing-kit
version: 1.2.0
description: words
steps:
  - id: summary
    skill: content-analyzer
    mission: Look at the content.
    input: ${{ sandbox }}/inputs/content.md
    output: ${{ sandbox }}/outputs/summary.json
    validate: {min_quotes: 3}
  - id: kit
    mission: Put it together.
    needs: [summary]
    model: opus
    input:
      - ${{ steps.summary.output }}
      - ${{ sandbox }}/inputs/content.md
    output: outputs/kit.json
    final: true
---

# For people
`))
	must(t, err)
	if f.Name != "writing-kit" || f.Version != "1.2.0" || len(f.Inputs) != 1 || f.Inputs[0].File != "content.md" || !f.Inputs[0].Required {
		t.Errorf("it is %+v", f)
	}
	if s := f.Steps[0]; !strings.HasPrefix(s.Prompt, "Use your skill content-analyzer") || s.Output != "summary.json" || s.Validate.MinQuotes != 3 {
		t.Errorf("summary is %+v", s)
	}
	if s := f.Steps[1]; s.Model != "opus" || !s.Final || s.Output != "kit.json" {
		t.Errorf("kit is %+v", s)
	}
	for text, want := range map[string]string{
		"# no front matter":                          "does not begin with ---",
		"---\nname: x\n":                             "does not end with ---",
		"---\nname: x\nsteps: [{id: a}]\n---\n":      "the mission is missing",
		"---\nname: x\nagents: []\nsteps: []\n---\n": "unknown field",
	} {
		if _, err := Parse("kit.md", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, not %q", text, err, want)
		}
	}
}

func TestCond(t *testing.T) {
	values := map[string]string{"a": "x", "b": "y", "success": "true", "failure": "false", "always": "true"}
	for text, want := range map[string]bool{
		"success()": true, "failure()": false, "!failure()": true, "always() && failure()": false,
		"a == 'x'": true, "a != 'x'": false, "a == b": false, "a=='x'&&b=='y'": true, "'' == a": false,
		"failure() || a == 'x' && b == 'z'": false, "(failure() || a == 'x') && !(b == 'z')": true, "${{ success() }}": true,
	} {
		c, err := parseCond(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := c.isTrue(func(part *cond) string { return values[part.text] }); got != want {
			t.Errorf("%s is %v", text, got)
		}
	}
	for _, text := range []string{"a", "a ==", "== 'x'", "(a == 'x'", "a == 'x", "a = 'x'", "a == 'x' b", "success", "success(1)", "run('x')", "a == success()", "1 == 1", "a < b", "`id`", strings.Repeat("!", 1001)} {
		if _, err := parseCond(text); err == nil {
			t.Errorf("%s is a condition", text)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("flow.yaml", []byte("name: n\nsteps: [{id: a, prompt: p, if: \"!(inputs.x == '1')\"}]"))
	stories, err := Shipped("test-first")
	must(f, err)
	f.Add("flow.yaml", stories)
	f.Add("flow.yaml", []byte("name: n\nsteps: [{id: a, matrix: {m: [1, 2]}, prompt: p, copy: true, agent: '${{ matrix.m }}'}, {id: b, of: a, command: c, env: {M: '${{ matrix.m }}'}}]"))
	f.Add("kit.md", []byte("---\nname: n\nsteps: []\n---"))
	f.Fuzz(func(_ *testing.T, name string, data []byte) {
		if f, err := Parse(name, data); err == nil {
			p := &Plan{Flow: f, Agent: "mine", Values: map[string]string{}}
			given := map[string][]byte{}
			for _, in := range f.Inputs {
				if in.File != "" {
					p.Files, given[in.File] = append(p.Files, in.File), []byte(`[{"id": 1}, {"id": 2}]`)
				} else {
					p.Values[in.Name] = "x"
				}
			}
			if p.Check(given) == nil {
				p.Rooms()
				for _, n := range p.Nodes() {
					p.Definition(n)
				}
			}
		}
	})
}

// TestDeep checks that a small document that expands to a large one is refused before it is used.
func TestDeep(t *testing.T) {
	for name, text := range map[string]string{
		"lists":    strings.Repeat("- ", 100_000),
		"keys":     strings.Repeat("? ", 100_000),
		"tags":     strings.Repeat("!a ", 80_000),
		"brackets": strings.Repeat("[", 100_000),
	} {
		if _, err := Parse("deep.yaml", []byte(text)); err == nil {
			t.Errorf("%s: it is a flow", name)
		}
	}
}
