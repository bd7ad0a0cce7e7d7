package policy

import (
	"errors"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

func TestRuleID(t *testing.T) {
	a, b := rule(t, Allow, "Example.com.:443"), rule(t, Allow, "example.com:443")
	if a.ID() != b.ID() || len(a.ID()) != 12 {
		t.Errorf("%s and %s", a.ID(), b.ID())
	}
	b.Until, b.Why, b.Source, b.MaxUpload = noon, "because", Source{Layer: LayerSandbox}, 5
	if a.ID() != b.ID() {
		t.Error("the end, note, source or budget of a rule changes its ID")
	}
	for _, change := range []func(*Rule){
		func(r *Rule) { r.Action = Deny }, func(r *Rule) { r.Target.Port = 80 }, func(r *Rule) { r.HTTP.Methods = []string{"GET"} },
		func(r *Rule) { r.HTTP.Paths = []string{"/GET"} }, func(r *Rule) { r.HTTP.Queries = []string{"GET"} }, func(r *Rule) { r.HTTP.MaxBody = 1 },
		func(r *Rule) { r.HTTP.Headers = map[string]string{"a": "b"} }, func(r *Rule) { r.HTTP.WebSocket = true }, func(r *Rule) { r.Inspect = true },
		func(r *Rule) { r.Passthrough = true },
	} {
		c := a
		change(&c)
		if c.ID() == a.ID() {
			t.Errorf("%s has the ID of %s", &c, &a)
		}
	}
}

func TestDecodeNetwork(t *testing.T) {
	for text, want := range map[string]int{ // number of rules; -1 is an error, -2 no block
		"network: {allow: [a.example]}\n":                                                  1,
		"name: x\nscript: |\n  a\n  b\nnetwork:\n  allow:\n  - a.example\n  - b.example\n": 2,
		"name: &n !!str x\nother: *n\nnetwork: {presets: [npm]}\n":                         0,
		"\ufeffnetwork: {allow: [a.example]}\n":                                            1,
		"\ufeff\ufeffnetwork: {allow: [a.example]}\n":                                      -2,
		"name: x\n":               -2,
		"network:\n":              -1,
		"network: null\n":         -1,
		"network: {}\n":           -1,
		"network: []\n":           -1,
		"network: a.example\n":    -1,
		"network: {version: 1}\n": -1,
		"network: {allow: []}\n":  -1,
		"a: &n {allow: [b.example]}\nnetwork: *n\n":                      -1,
		"network: &n {allow: [b.example]}\n":                             -1,
		"<<: {network: {allow: [b.example]}}\n":                          -1,
		"network: {<<: {allow: [b.example]}}\n":                          -1,
		"network: {allow: [a.example]}\nnetwork: {allow: [b.example]}\n": -1,
		"network: {allow: [a.example]}\n---\nnetwork: {}\n":              -1,
		"? network\n: {allow: [b.example]}\n":                            -1,
		"&a network: {allow: [b.example]}\n":                             -1,
		"\"netw\\u006frk\": null\n":                                      -1,
		"- network\n":                                                    -1,
		"":                                                               -1,
	} {
		b, err := DecodeNetwork([]byte(text))
		got := -1
		switch {
		case err == nil && b == nil:
			got = -2
		case err == nil:
			got = len(b.Allow)
		}
		if got != want {
			t.Errorf("%q is %+v, %v", text, b, err)
		}
	}
	_, err := DecodeNetwork([]byte("name: x\nnetwork:\n  allow:\n  - 0x7f.1\n"))
	if err == nil || !strings.HasPrefix(err.Error(), "line 4: ") {
		t.Errorf("the error is %v", err)
	}
	for text, want := range map[string]string{
		"network:\n  default: allow\n":                                      "line 2: default: allow in a project's file",
		"network:\n  presets: [npm, open]\n":                                "line 2: preset open in a project's file",
		"network:\n  allow:\n  - {host: a.example, passthrough: true}\n":    "line 3: passthrough in a project's file",
		"network:\n  allow:\n  - a.example\n  - {host: b, max_upload: 5}\n": "line 4: max_upload in a project's file",
		"network:\n  deny: [a.example]\n  presets: [nope]\n":                "line 3: no preset",
	} {
		if _, err := DecodeNetwork([]byte(text)); !errors.Is(err, spec.ErrUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gives %v, want %q", text, err, want)
		}
	}
	if _, err := DecodeNetwork(make([]byte, 65<<10)); err == nil {
		t.Error("a document of 65 KiB is read")
	}
}

// TestParseSize checks that a size on a command line is read like one in a file.
func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{"1": 1, "1500": 1500, "2KiB": 2 << 10, "10MiB": 10 << 20, "3GiB": 3 << 30} {
		if n, err := ParseSize(text); err != nil || n != want {
			t.Errorf("%s: %d, %v", text, n, err)
		}
	}
	for _, text := range []string{"", "0", "0MiB", "-1", "10MB", "1.5GiB", "MiB", " 1", "01", "9999999999GiB"} {
		if n, err := ParseSize(text); err == nil {
			t.Errorf("%q: %d", text, n)
		}
	}
}
