package term

import (
	"strings"
	"testing"
	"unicode"
)

func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "",
		"all is well":                    "all is well",
		"  in  two  columns ":            "  in  two  columns ",
		"I see two ways.\nWhich one?":    "I see two ways. Which one?",
		"one \r\n\r\n\t two\n":           "one two",
		"\n  one":                        "one",
		"\n \t\n":                        "",
		"a\tb":                           "a b",
		"done\rbothy: completed":         "done bothy: completed",
		"\x1b[2Jone\n\x1b]0;x\x07two":    "one two",
		"one\x1b[3\ntwo":                 "one\ufffd two",
		"a\u2028b\u202ec\x00":            `a\u2028b\u202ec\x00`,
		"one\n\x1b[31m\x1b[0m\nthree":    "one three",
		"bytes \xff\nthat are no text\n": "bytes \ufffd that are no text",
		`a \n that somebody wrote so`:    `a \n that somebody wrote so`,
	} {
		if got := Line(text); got != want {
			t.Errorf("Line(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestOpening(t *testing.T) {
	long := strings.Repeat("é", 81)
	for text, want := range map[string]string{
		"":                               "",
		"one":                            "one",
		"  one\n":                        "one",
		"\n\n one \n two":                "one ...",
		"one\rtwo":                       "one ...",
		"one\n \n":                       "one",
		"\x1b[31m\x1b[0m\nsays it":       "says it",
		long:                             long[:160] + " ...",
		long[:160]:                       long[:160],
		"\x1b[2J" + long[:160]:           long[:160],
		strings.Repeat("\u202e", 40):     strings.Repeat(`\u202e`, 13) + `\u ...`,
		"one\n" + strings.Repeat(" ", 9): "one",
	} {
		if got := Opening(text); got != want {
			t.Errorf("Opening(%q) = %q, want %q", text, got, want)
		}
	}
}

// FuzzLine checks that any text becomes one line, that the line does not control the terminal, and
// that Line leaves such a line unchanged.
func FuzzLine(f *testing.F) {
	for _, text := range []string{"one\r\n\ttwo", "\x1b[3\n1m", "\x1b]0;\n\x07", " \u2028\u0085\v\f ", "\xe2\x80\n\xa8"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, got := range []string{Line(text), Opening(text)} {
			if i := strings.IndexFunc(got, unicode.IsControl); i >= 0 || strings.ContainsAny(got, "\u2028\u2029") {
				t.Errorf("of %q there is %q", text, got)
			}
			if again := Line(got); again != got {
				t.Errorf("%q, made one line again, is %q", got, again)
			}
		}
	})
}
