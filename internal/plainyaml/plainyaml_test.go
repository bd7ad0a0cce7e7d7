package plainyaml

import (
	"strings"
	"testing"
)

type file struct {
	Name string   `json:"name"`
	List []string `json:"list"`
}

func TestDecode(t *testing.T) {
	var f file
	if err := Decode([]byte("name: n # a remark\nlist: [a, b]\n"), &f); err != nil || f.Name != "n" || len(f.List) != 2 {
		t.Fatalf("%+v, %v", f, err)
	}
	for text, want := range map[string]string{
		"name: n\ncolour: m\n":                  `unknown field "colour"`,
		"name: n\nname: m\n":                    "it is not YAML",
		"name: n\n---\nname: m\n":               "more than one document",
		"name: &a n\nlist: [*a]\n":              "names for parts",
		"name: [n\n":                            "it is not YAML",
		"name: 1\n":                             "cannot unmarshal number",
		strings.Repeat("[", maxBrackets+1):      "too many brackets",
		strings.Repeat("- ", maxIndent) + "a\n": "nested too deeply",
	} {
		if err := Decode([]byte(text), &file{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, not %q", text, err, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("name: n\nlist: [a]\n"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		if len(data) <= 64<<10 {
			_ = Decode(data, &file{}) // it must come back
		}
	})
}
