package spec

import (
	"testing"
)

// TestTitle checks that a title is one line, whatever names a file or a foreign checkpoint contains.
func TestTitle(t *testing.T) {
	for want, s := range map[string]SetUp{
		"onCreateCommand":              {When: OnCreate},
		"postCreateCommand (a b)":      {When: PostCreate, Name: "a b"},
		`"postCreateCommand (a\nok)"`:  {When: PostCreate, Name: "a\nok"},
		`"x\nbothy: ok (a)"`:           {When: "x\nbothy: ok", Name: "a"},
		`"onCreateCommand (\x1b[1mx)"`: {When: OnCreate, Name: "\x1b[1mx"},
	} {
		if got := s.Title(); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
}
