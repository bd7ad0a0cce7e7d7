package gate

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// TestSchema compares our results with those of another implementation, for random schemas and
// documents.
func TestSchema(t *testing.T) {
	good, n := 0, 4000
	for seed := range n {
		g := generator{rand.New(rand.NewPCG(1, uint64(seed)))}
		doc := g.schema(3)
		text, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := CompileSchema(doc)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		var s jsonschema.Schema
		if err := json.Unmarshal(text, &s); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		theirs, err := s.Resolve(nil)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for range 8 {
			v := g.value(3)
			a, b := ours.Validate(v), theirs.Validate(v)
			if (a == nil) != (b == nil) {
				document, _ := json.Marshal(v)
				t.Errorf("%s of %s: %v, and they say %v", document, text, a, b)
			}
			if a == nil {
				good++
			}
		}
	}
	if good < n || good > 7*n {
		t.Errorf("%d of %d documents are good: that compares little", good, 8*n)
	}
}

type generator struct{ *rand.Rand }

func (g generator) one(list ...any) any { return list[g.IntN(len(list))] }

func (g generator) name() string { return g.one("a", "b", "c").(string) }

func (g generator) value(depth int) any {
	k := g.IntN(8)
	if depth == 0 {
		k = g.IntN(5)
	}
	switch k {
	case 0:
		return nil
	case 1:
		return g.IntN(2) == 0
	case 2:
		return float64(g.IntN(7))
	case 3:
		return float64(g.IntN(7)) / 2
	case 4:
		return g.one("", "a", "ab", "xyz", "é")
	case 5:
		list := []any{}
		for range g.IntN(4) {
			list = append(list, g.value(depth-1))
		}
		return list
	}
	o := map[string]any{}
	for range g.IntN(4) {
		o[g.name()] = g.value(depth - 1)
	}
	return o
}

func (g generator) schemas(depth int) []any {
	list := []any{g.schema(depth)}
	for range g.IntN(2) {
		list = append(list, g.schema(depth))
	}
	return list
}

func (g generator) schema(depth int) any {
	if depth == 0 {
		return g.one(true, false, map[string]any{}, map[string]any{"type": "string"}, map[string]any{"type": "integer"}, map[string]any{"minimum": 2.0})
	}
	s := map[string]any{}
	for range 1 + g.IntN(3) {
		g.keyword(s, depth-1)
	}
	return s
}

func (g generator) keyword(s map[string]any, depth int) {
	n := float64(g.IntN(4))
	switch g.IntN(26) {
	case 0:
		s["type"] = g.one("null", "boolean", "object", "array", "number", "integer", "string")
	case 1:
		s["type"] = []any{"object", g.one("array", "string", "integer")}
	case 2:
		s["const"] = g.value(1)
	case 3:
		s["enum"] = []any{g.value(1), g.value(1), "a"}
	case 4:
		s["required"] = []any{g.name()}
	case 5:
		s["properties"] = map[string]any{g.name(): g.schema(depth), "a": g.schema(depth)}
	case 6:
		s["patternProperties"] = map[string]any{"^[ab]$": g.schema(depth)}
	case 7:
		s["additionalProperties"] = g.schema(depth)
	case 8:
		s["propertyNames"] = map[string]any{"pattern": "[ab]"}
	case 9:
		s["dependentRequired"] = map[string]any{"a": []any{g.name()}}
	case 10:
		s["items"] = g.schema(depth)
	case 11:
		s["prefixItems"] = g.schemas(depth)
	case 12:
		s["contains"] = g.schema(depth)
	case 13:
		s["contains"], s["minContains"], s["maxContains"] = g.schema(depth), n, n+1
	case 14:
		s["minItems"] = n
	case 15:
		s["maxItems"] = n
	case 16:
		s["uniqueItems"] = true
	case 17:
		s["minLength"], s["maxLength"] = min(n, 2), 2.0
	case 18:
		s["pattern"] = g.one("^a", "b$", "[a-z]{2}")
	case 19:
		s["minimum"], s["exclusiveMaximum"] = n, n+2
	case 20:
		s["exclusiveMinimum"], s["maximum"] = n, n+2
	case 21:
		s["multipleOf"] = n + 1
	case 22:
		s["allOf"] = g.schemas(depth)
	case 23:
		s[g.one("anyOf", "oneOf").(string)] = g.schemas(depth)
	case 24:
		s["not"] = g.schema(depth)
	case 25:
		s["if"], s["then"], s["else"] = g.schema(depth), g.schema(depth), g.schema(depth)
	}
	if g.IntN(4) == 0 {
		s["minProperties"], s["maxProperties"] = min(n, 1), 3.0
	}
}

// TestRef checks a schema that refers to itself for a part of the document.
func TestRef(t *testing.T) {
	s, err := CompileSchema(map[string]any{
		"$defs": map[string]any{"a/b~": map[string]any{"type": "object", "required": []any{"n"}, "properties": map[string]any{"next": map[string]any{"$ref": "#/$defs/a~1b~0"}}}},
		"$ref":  "#/$defs/a~1b~0",
	})
	if err != nil {
		t.Fatal(err)
	}
	node := func(next any) any { return map[string]any{"n": 1.0, "next": next} }
	last := map[string]any{"n": 2.0}
	if err := s.Validate(node(node(last))); err != nil {
		t.Error(err)
	}
	if err := s.Validate(node(node(map[string]any{}))); err == nil {
		t.Error("the innermost may lack n")
	}
}
