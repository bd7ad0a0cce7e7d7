package runner

import (
	"testing"
)

func TestSought(t *testing.T) {
	for said, want := range map[string]string{
		"/bin/sh: 1: go: not found\n":                           "go",
		"noise\nsh: line 1: cargo: command not found\n":         "cargo",
		"sh: pytest: not found":                                 "pytest",
		"sh: 1: a b: not found\nsh: 2: make: not found\r\nmore": "make",
		"env: 'node': No such file or directory":                "",
		"":                                                      "",
		": not found":                                           "",
	} {
		if got := sought(said); got != want {
			t.Errorf("%q: %q, want %q", said, got, want)
		}
	}
}
