package gate

import (
	"strings"
	"testing"
)

func TestJudge(t *testing.T) {
	kit := `{"contentId":"c","tldr":null,"importantQuotes":["a","b","c"],"keyThemes":[1],"ideas":{"hooks":["h"]},"outline":[{"title":"x"}]}`
	tests := []struct {
		name     string
		checks   Checks
		document string
		flaws    string // parts of the flaws, one a line; empty: the document passes
	}{
		{"there", Checks{}, "x", ""},
		{"empty", Checks{}, "", "the document is empty"},
		{"empty may be", Checks{Exists: true}, "", ""},
		{"fields", Checks{RequiredFields: []string{"contentId", "ideas.hooks", "outline.0.title"}}, kit, ""},
		{"null field", Checks{RequiredFields: []string{"tldr", "nothing", "outline.1", "contentId.x"}}, kit, "tldr is null\nnothing is missing\noutline.1 is missing\ncontentId.x is missing"},
		{"items", Checks{MinItems: map[string]int{"ideas.hooks": 1, "keyThemes": 2, "contentId": 1, "no": 1}}, kit, "contentId is not a list\nkeyThemes has 1 items, at least 2\nno is missing"},
		{"aliases", Checks{MinQuotes: 3, MinKeyPoints: 1, MinOutlineSections: 1, HasHooks: true}, kit, ""},
		{
			"aliases missing",
			Checks{MinQuotes: 4, MinKeyPoints: 2, MinOutlineSections: 2, HasHooks: true},
			`{"importantQuotes":[],"hooks":[]}`,
			"importantQuotes has 0 items\nkeyThemes is missing\nsuggestedOutline or outline is missing\nhooks has 0 items",
		},
		{"pattern", Checks{Pattern: `(?m)^# `}, "x\n# y", ""},
		{"no pattern", Checks{Pattern: `(?m)^# `}, "x # y", "is not found"},
		{"no JSON", Checks{HasHooks: true}, "hooks", "it is not JSON"},
		{"half", Checks{HasHooks: true}, `{"hooks":[1]`, "it ends too early"},
		{"more", Checks{HasHooks: true}, `{"hooks":[1]}{}`, "something follows its end"},
		{"twice", Checks{HasHooks: true}, `{"hooks":[1],"hooks":[]}`, `the key "hooks" occurs in it twice`},
		{"number", Checks{HasHooks: true}, `{"hooks":[1e999]}`, "too large"},
		{"bytes", Checks{HasHooks: true}, "{\"hooks\":[\"\xff\"]}", "not UTF-8"},
		{"deep", Checks{HasHooks: true}, strings.Repeat("[", 1e6), "deeper than 64"},
		{"many", Checks{HasHooks: true}, `{"hooks":[` + strings.Repeat("{},", maxValues) + "1]}", "more than 500000 values"},
		{"large", Checks{}, strings.Repeat("x", MaxBytes+1), "of which 8388608 may be"},
		{"schema", Checks{Schema: map[string]any{"required": []any{"contentId"}}}, kit, ""},
		{"not the schema", Checks{Schema: map[string]any{"properties": map[string]any{"contentId": map[string]any{"type": "array"}}}}, kit, "/contentId is not of the type array"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.checks.Valid(); err != nil {
				t.Fatal(err)
			}
			r := tt.checks.Judge([]byte(tt.document))
			flaws := r.Flaws()
			if r.Passed != (len(flaws) == 0) || r.Passed != (tt.flaws == "") {
				t.Fatalf("passed %v, flaws %q", r.Passed, flaws)
			}
			if tt.flaws == "" {
				return
			}
			wants := strings.Split(tt.flaws, "\n")
			if len(wants) != len(flaws) {
				t.Fatalf("flaws %q", flaws)
			}
			for i, want := range wants {
				if !strings.Contains(flaws[i], want) {
					t.Errorf("%q does not say %q", flaws[i], want)
				}
			}
		})
	}
}

func TestValid(t *testing.T) {
	for want, c := range map[string]Checks{
		"is not a path":                  {RequiredFields: []string{"a..b"}},
		"not a possible number of items": {MinItems: map[string]int{"a": 0}},
		"missing closing":                {Pattern: "("},
		"negative":                       {MinQuotes: -1},
		"json_schema: #/type":            {Schema: map[string]any{"type": "text"}},
		"leads out":                      {Schema: map[string]any{"$ref": "https://example.com/x"}},
		"leads to itself":                {Schema: map[string]any{"allOf": []any{map[string]any{"$ref": "#"}}}},
		"not understood":                 {Schema: map[string]any{"typ": []any{"a"}}},
		"only whole numbers":             {Schema: map[string]any{"multipleOf": 0.1}},
		"it has no #/$defs/no":           {Schema: map[string]any{"$ref": "#/$defs/no"}},
	} {
		if err := c.Valid(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, not %q", c, err, want)
		}
	}
}

// TestTooMuch checks a one-line schema that asks for too much work.
func TestTooMuch(t *testing.T) {
	branch := map[string]any{"items": map[string]any{"$ref": "#"}}
	s, err := CompileSchema(map[string]any{"anyOf": []any{map[string]any{"allOf": []any{branch, map[string]any{"type": "string"}}}, branch, branch, false}, "type": []any{"array", "string"}})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := ReadJSON([]byte(strings.Repeat("[", 60) + "1" + strings.Repeat("]", 60)))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(doc); err == nil || !strings.Contains(err.Error(), "too much work") {
		t.Errorf("it says %v", err)
	}
}

// TestTooMuchToCompare checks a list of values to compare with every value of a long document. The
// answer is an error, and not a mismatch.
func TestTooMuchToCompare(t *testing.T) {
	var list []any
	for i := range 1000 {
		list = append(list, float64(i))
	}
	doc, err := ReadJSON([]byte("[" + strings.Repeat("1,", 400_000) + "1]"))
	if err != nil {
		t.Fatal(err)
	}
	for _, schema := range []map[string]any{{"enum": list}, {"not": map[string]any{"enum": list}}, {"anyOf": []any{map[string]any{"enum": list}, true}}} {
		s, err := CompileSchema(schema)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(doc); err == nil || !strings.Contains(err.Error(), "too much work") {
			t.Errorf("it says %v", err)
		}
	}
}

func FuzzJudge(f *testing.F) {
	f.Add([]byte(`{"hooks":[1],"a":{"b":null}}`))
	c := Checks{HasHooks: true, RequiredFields: []string{"a.b"}, Schema: map[string]any{"items": map[string]any{"$ref": "#"}, "uniqueItems": true}}
	f.Fuzz(func(t *testing.T, document []byte) {
		r := c.Judge(document)
		if r.Passed != (len(r.Flaws()) == 0) {
			t.Errorf("%+v", r)
		}
	})
}
