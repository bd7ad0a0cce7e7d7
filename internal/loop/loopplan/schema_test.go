package loopplan

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/gate"
	"github.com/bothy-dev/bothy/internal/strictyaml"
)

// TestSchema checks that the schema knows the fields that the parser reads, and no others.
func TestSchema(t *testing.T) {
	var doc struct {
		Properties map[string]any
		Defs       map[string]struct{ Properties map[string]any } `json:"$defs"`
	}
	must(t, json.Unmarshal([]byte(Schema()), &doc))
	for name, of := range map[string]struct {
		words map[string]any
		is    any
	}{
		"file": {doc.Properties, Gates{}}, "gate": {doc.Defs["gate"].Properties, Criterion{}},
		"reviewer": {doc.Defs["reviewer"].Properties, Reviewer{}}, "checks": {doc.Defs["checks"].Properties, gate.Checks{}},
	} {
		known := map[string]bool{}
		for f := range reflect.TypeOf(of.is).Fields() {
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
	must(t, json.Unmarshal([]byte(Schema()), &doc))
	s, err := gate.CompileSchema(doc)
	must(t, err)
	judge := func(text string) error {
		var v any
		must(t, strictyaml.Decode([]byte(text), &v))
		return s.Validate(v)
	}
	if err := judge(gatesFile); err != nil {
		t.Error(err)
	}
	for _, one := range []string{
		"{id: a}", "{id: 1a, command: x}", "{id: a, command: x, file: y}", "{id: a, command: x, validate: {}}", "{id: a, shell: x}",
		"{id: a, reviewer: {agent: x}}", "{id: a, reviewer: {prompt: x}}", "{id: a, file: x, validate: {min_items: {a: 0}}}",
	} {
		text := "gates: [" + one + "]"
		if judge(text) == nil {
			t.Errorf("%s is a gate", one)
		}
		if _, err := ReadGates([]byte(text)); err == nil {
			t.Errorf("%s is read as one", one)
		}
	}
}
