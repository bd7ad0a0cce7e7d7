package strictyaml

import (
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

type file struct {
	Name string   `json:"name"`
	List []string `json:"list"`
	In   []inner  `json:"in"`

	By map[string]*inner `json:"by"`
}

type inner struct {
	Time *spec.Duration `json:"time"`
	List []string       `json:"list"`
}

func TestDecode(t *testing.T) {
	var f file
	if err := Decode([]byte("name: n # a remark\nlist: [a, b]\n"), &f); err != nil || f.Name != "n" || len(f.List) != 2 {
		t.Fatalf("%+v, %v", f, err)
	}
	if err := Decode([]byte("\ufeffname: m\n"), &f); err != nil || f.Name != "m" {
		t.Errorf("behind a byte order mark: %+v, %v", f, err)
	}
	for text, want := range map[string]string{
		"name: n\ncolour: m\n":                   `unknown field "colour"`,
		"name: n\nname: m\n":                     "it is not YAML",
		"name: n\n---\nname: m\n":                "more than one document",
		"name: &a n\nlist: [*a]\n":               "names for parts",
		"name: [n\n":                             "it is not YAML",
		"name: 1\n":                              "line 1: text is wanted, not number",
		"Name: n\n":                              `line 1: unknown field "Name"`,
		"name: n\n\nlist:\n  - a\n  - [b]\n":     "line 5: text is wanted, not array",
		"list: a\n":                              "line 1: a list is wanted, not string",
		"name: n\nin:\n  - time: 1s\n    x: y\n": `line 4: unknown field "x"`,
		"in:\n- {time: 1s}\n- {time: soon}\n":    "line 3: time: invalid duration",
		"in:\n- {time: 1s}\n- time: 5\n":         "line 3: text is wanted, not number",
		"by: {a: {time: 1s}, b: {tim: 1s}}\n":    `line 1: unknown field "tim"`,
		"by:\n  a: {list: [b, c.example:443]}\n": `line 2: text is wanted, not object; if it is one, write it in quotes: "c.example:443"`,
		"[]\n":                                   "line 1: keys with values is wanted",
		strings.Repeat("[", maxDepth+1):          "nested too deeply",
		"":                                       "it is empty",
		strings.Repeat("- ", maxIndent) + "a\n":  "nested too deeply",
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
			_ = Decode(data, &file{}) // it must return
		}
	})
}
