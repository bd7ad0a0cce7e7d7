package flowplan

import (
	"errors"
	"math"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// TestAgentByInput checks that inputs may choose a step's agent and its model. Without a choice it
// is the default agent.
func TestAgentByInput(t *testing.T) {
	f := parse(t, "name: n\ninputs: [{name: who}, {name: model, default: big}]\nsteps: [{id: a, prompt: p, agent: '${{ inputs.who }}', model: '${{ inputs.model }}'}, {id: b, prompt: p}]\n")
	for _, c := range []struct {
		values     map[string]string
		who, model string
	}{
		{map[string]string{}, "usual", "big"},
		{map[string]string{"who": "other", "model": ""}, "other", ""},
		{map[string]string{"who": " "}, "usual", "big"},
	} {
		p := &Plan{Flow: f, Agent: "usual", Values: c.values}
		must(t, p.Check(nil))
		a, b := p.Nodes()[0], p.Nodes()[1]
		if p.AgentOf(a) != c.who || p.ModelOf(a) != c.model || p.AgentOf(b) != "usual" || p.ModelOf(b) != "" {
			t.Errorf("%v: %s with %q, and %s", c.values, p.AgentOf(a), p.ModelOf(a), p.AgentOf(b))
		}
		if want := map[bool]int{true: 1, false: 2}[c.who == "usual"]; len(p.Rooms()) != want {
			t.Errorf("%v: they work in %v", c.values, p.Rooms())
		}
	}
	// An element of a list may choose too; an empty name leaves the choice to the next word.
	g := parse(t, "name: n\ninputs: [{name: list, file: l.json, required: true}, {name: who}]\nsteps: [{id: s, each: list, steps: [{id: a, prompt: p, agent: '${{ each.tool }} ${{ inputs.who }}'}]}]\n")
	for who, want := range map[string]string{"": "codex usual", "other": "codex other"} {
		p := &Plan{Flow: g, Agent: "usual", Values: map[string]string{"who": who}, Files: []string{"l.json"}}
		must(t, p.Check(map[string][]byte{"l.json": []byte(`[{"id": "1", "tool": "codex"}, {"id": "2"}]`)}))
		if got := p.AgentOf(p.Nodes()[0]) + " " + p.AgentOf(p.Nodes()[1]); got != want {
			t.Errorf("%q: %s, not %s", who, got, want)
		}
	}
	p := &Plan{Flow: f, Values: map[string]string{"who": "other"}}
	if p.Check(nil) == nil {
		t.Error("nobody does b")
	}
}

// TestRequired checks that a required text must not be empty; other texts may be.
func TestRequired(t *testing.T) {
	f := parse(t, "name: n\nagent: a\ninputs: [{name: what, required: true}, {name: how}]\nsteps: [{id: a, prompt: '${{ inputs.what }}'}]\n")
	for what, want := range map[string]bool{"": false, " \n": false, "it": true} {
		if err := (&Plan{Flow: f, Values: map[string]string{"what": what, "how": ""}}).Check(nil); (err == nil) != want {
			t.Errorf("%q: %v", what, err)
		}
	}
	b, files, err := Builder()
	must(t, err)
	p := &Plan{Flow: b, Agent: "a", Values: map[string]string{"description": ""}, Files: []string{"schema.json", "writing-kit.yaml", "test-first.yaml"}}
	if err := p.Check(files); err == nil {
		t.Error("nothing is to be drafted")
	}
}

// TestPlanLimits checks that invalid limits are refused.
func TestPlanLimits(t *testing.T) {
	for _, l := range []Limits{{Time: -1}, {Tokens: -1}, {USD: -1}, {USD: math.NaN()}, {USD: math.Inf(1)}} {
		if err := (&Plan{Limits: l}).Check(nil); !errors.Is(err, spec.ErrUsage) {
			t.Errorf("%+v: %v", l, err)
		}
	}
}
