package gate

import (
	"runtime"
	"strings"
	"testing"
)

// schemaOf compiles a valid schema.
func schemaOf(t *testing.T, text string) *Schema {
	t.Helper()
	doc, err := ReadJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, err := CompileSchema(doc)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPlace(t *testing.T) {
	long := strings.Repeat("k", 5<<20)
	tests := []struct{ name, schema, document, want string }{
		{"the whole", `{"type":"array"}`, `{}`, "the document is not of the type array"},
		{"below", `{"additionalProperties":{"items":{"required":["b"]}}}`, `{"a~/":[{"b":1},{}]}`, `/a~0~1/1 has no "b"`},
		{"long", `{"additionalProperties":{"items":{"type":"string"}}}`, `{"` + long + `":["",1]}`, "/" + long[:maxTold-1] + "... is not of the type string"},
		{"behind", `{"additionalProperties":{"additionalProperties":{"enum":["` + long[:400] + `"]}}}`, `{"a":{"b":1}}`, `/a/b is none of ["` + long[:maxTold-2] + "..."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			doc, err := ReadJSON([]byte(tt.document))
			if err != nil {
				t.Fatal(err)
			}
			err = schemaOf(t, tt.schema).Validate(doc)
			if err == nil || err.Error() != tt.want {
				t.Errorf("it says %v", err)
			}
		})
	}
}

// TestLongKey judges the values below a key that is nearly the whole document: the work must not grow
// with the key times the values.
func TestLongKey(t *testing.T) {
	const key, values = 4 << 20, 200_000
	doc, err := ReadJSON([]byte(`{"` + strings.Repeat("k", key) + `":[` + strings.Repeat("1,", values) + `1]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, schema := range []string{
		`{"additionalProperties":{"items":{"type":"integer"}}}`,
		`{"additionalProperties":{"items":{"anyOf":[{"type":"string"},{"enum":["a"]},{"minimum":0}]}}}`, // its flaws are never shown
	} {
		s := schemaOf(t, schema)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := s.Validate(doc)
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatal(err)
		}
		if got := (after.TotalAlloc - before.TotalAlloc) / values; got > 4<<10 {
			t.Errorf("%s: %d bytes were taken for each value", schema, got)
		}
	}
}

// TestLongSchema checks that a schema is refused whose paths are together far larger than the schema.
func TestLongSchema(t *testing.T) {
	inner := map[string]any{}
	for _, c := range "abcdefgh" {
		inner[string(c)] = true
	}
	_, err := CompileSchema(map[string]any{"properties": map[string]any{strings.Repeat("k", maxPlace): map[string]any{"properties": inner}}})
	if err == nil || !strings.Contains(err.Error(), "path is too long") {
		t.Errorf("it says %v", err)
	}
}
