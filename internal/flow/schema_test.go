package flow

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/bothy-dev/bothy/internal/flow/flowplan"
	"github.com/bothy-dev/bothy/internal/gate"
)

// TestSchema checks that the schema knows the fields that the parser reads, and no others.
func TestSchema(t *testing.T) {
	var doc struct {
		Properties map[string]any
		Defs       map[string]struct{ Properties map[string]any } `json:"$defs"`
	}
	must(t, json.Unmarshal([]byte(flowplan.Schema()), &doc))
	for name, of := range map[string]struct {
		words map[string]any
		is    any
	}{
		"flow": {doc.Properties, flowplan.Flow{}}, "input": {doc.Defs["input"].Properties, flowplan.Input{}},
		"step": {doc.Defs["step"].Properties, flowplan.Step{}}, "back": {doc.Defs["back"].Properties, flowplan.Back{}}, "checks": {doc.Defs["checks"].Properties, gate.Checks{}},
	} {
		fields := reflect.TypeOf(of.is)
		known := map[string]bool{}
		for f := range fields.Fields() {
			word, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if known[word] = true; of.words[word] == nil {
				t.Errorf("%s: %s is not in the schema", name, word)
			}
		}
		for word := range of.words {
			if !known[word] {
				t.Errorf("%s: %s is only in the schema", name, word)
			}
		}
	}
}

// TestSchemaJudges checks that the schema and the parser accept the same documents.
func TestSchemaJudges(t *testing.T) {
	var doc any
	must(t, json.Unmarshal([]byte(flowplan.Schema()), &doc))
	s, err := gate.CompileSchema(doc)
	must(t, err)
	judge := func(text string) error {
		var v any
		must(t, yaml.Unmarshal([]byte(text), &v))
		b, err := json.Marshal(v)
		must(t, err)
		var plain any
		must(t, json.Unmarshal(b, &plain))
		return s.Validate(plain)
	}
	for _, text := range []string{three, decided, stories, randomFlow(newRand(1)), randomFlow(newRand(2))} {
		if err := judge(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, values := range []string{"[1, a]", "{list: '${{ inputs.x }}'}", "{count: '${{inputs.x}}'}", "{turn: '${{ inputs.x }}'}"} {
		if err := judge("name: n\nsteps: [{id: a, prompt: p, matrix: {m: " + values + "}}]"); err != nil {
			t.Errorf("%s: %v", values, err)
		}
	}
	for _, step := range []string{"{id: a, prompt: p, matrix: {m: a}}", "{id: a, prompt: p, matrix: {m: {list: a}}}", "{id: a, prompt: p, matrix: {m: {of: '${{ inputs.x }}'}}}", "{id: a}", "{id: a, prompt: p, command: c}", "{id: a, promt: p}", "{id: 1a, prompt: p}", "{id: a, prompt: p, retry: 11}", "{id: a, prompt: p, validate: {x: 1}}", "{id: a, each: x}", "{id: a, each: x, prompt: p}", "{id: a, each: x, steps: []}", "{id: a, prompt: p, back: {times: 1}}", "{id: a, each: x, steps: [{id: 1}]}"} {
		if err := judge("name: n\nsteps: [" + step + "]"); err == nil {
			t.Errorf("%s is a step", step)
		}
	}
}
