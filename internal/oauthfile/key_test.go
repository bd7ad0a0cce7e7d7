package oauthfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// TestKey checks that a key is lent only if the file is the user's alone. The mode of a
// file without a key does not matter.
func TestKey(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		want string // the key, or a part of the error; empty: there is none
	}{
		"one":              {`{"a":{"key":"sk-REAL-0123456789"},"b":1}`, 0o600, "sk-REAL-0123456789"},
		"null":             {`{"a":{"key":null}}`, 0o600, ""},
		"empty":            {`{"a":{"key":""}}`, 0o600, ""},
		"no member":        {`{"a":{}}`, 0o600, ""},
		"no object":        {`{"a":"sk-REAL-0123456789"}`, 0o600, ""},
		"none, for all":    {`{"a":{"other":"REAL"}}`, 0o644, ""},
		"one, for all":     {`{"a":{"key":"sk-REAL-0123456789"}}`, 0o644, "its mode is 0644"},
		"a number":         {`{"a":{"key":123456789012}}`, 0o600, "is not a key"},
		"with a line":      {`{"a":{"key":"sk-REAL-\n0123456789"}}`, 0o600, "is not a key"},
		"too short":        {`{"a":{"key":"REAL"}}`, 0o600, "is not a key"},
		"no JSON":          {`key = REAL`, 0o600, "not a JSON object"},
		"something behind": {`{"a":{}} REAL`, 0o600, "after its JSON object"},
		"comments above":   {"// by a program\n // REAL\n{\"a\":{\"key\":\"sk-REAL-0123456789\"}}", 0o600, "sk-REAL-0123456789"},
		"only comments":    {"// REAL", 0o600, "not a JSON object"},
		"comments within":  {"{ // REAL\n}", 0o600, "not a JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			k := FindKey(spec.AgentKey{File: "keys.json", Key: "/a/key"}, t.TempDir(), os.Getenv)
			must(t, os.WriteFile(k.Path, []byte(c.text), c.mode))
			must(t, os.Chmod(k.Path, c.mode))
			got, err := k.Read()
			switch {
			case c.want == "":
				if !errors.Is(err, ErrNone) {
					t.Errorf("%q, %v", got, err)
				}
			case err == nil && got != c.want, err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "REAL")):
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// TestKeyOfSome checks a key under the name of an account: one match is the key, several are ambiguous.
func TestKeyOfSome(t *testing.T) {
	for text, want := range map[string]string{
		`{"t":{"https://a:me":"sk-REAL-0123456789","https://b:me":"other-REAL-0123"}}`: "sk-REAL-0123456789",
		`{"t":{"https://a:me":"sk-REAL-0123456789","https://a:you":null}}`:             "sk-REAL-0123456789",
		`{"t":{"https://a:me":"sk-REAL-0123456789","https://a:you":"sk-REAL-1"}}`:      "several at /t/",
		`{"t":{"https://a:me":{"x":"sk-REAL-0123456789"}}}`:                            "is not a key",
		`{"t":{"https://b:me":"sk-REAL-0123456789"}}`:                                  "",
		`{"t":["sk-REAL-0123456789"]}`:                                                 "",
	} {
		k := Key{Path: filepath.Join(t.TempDir(), "keys.json"), Pointer: "/t/https:~1~1a:*"}
		must(t, os.WriteFile(k.Path, []byte(text), 0o600))
		got, err := k.Read()
		switch {
		case want == "" && errors.Is(err, ErrNone), err == nil && got == want:
		case err == nil || want == "" || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "REAL"):
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
}

// TestKeyOfCommand checks that a command that prints a key is not run, and that no error quotes it.
func TestKeyOfCommand(t *testing.T) {
	made := filepath.Join(t.TempDir(), "made")
	for text, want := range map[string]error{
		`{"helper":"touch ` + made + `; echo sk-REAL-0123456789"}`: ErrCommand,
		`{"helper":""}`: ErrNone,
		`{}`:            ErrNone,
	} {
		k := Key{Path: filepath.Join(t.TempDir(), "keys.json"), Pointer: "/helper", Command: true}
		must(t, os.WriteFile(k.Path, []byte(text), 0o644))
		if got, err := k.Read(); got != "" || !errors.Is(err, want) || strings.Contains(err.Error(), "REAL") {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	if _, err := os.Lstat(made); err == nil {
		t.Error("it was run")
	}
}

// TestKeyOfVariables checks that a key in a file of variables is found as a program that
// loads the file finds it.
func TestKeyOfVariables(t *testing.T) {
	const key = "sk-REAL-0123456789"
	for text, want := range map[string]string{
		"KEY=" + key: key,
		"# KEY=x\n OTHER=1\n KEY = " + key + "\n": key,
		"export KEY=\"" + key + "\"\r\n":          key,
		"KEY='" + key + "' ":                      key,
		"KEY=" + key + " # mine":                  key,
		"KEY=\"" + key + "\" # mine":              key,
		"KEY=first-0123456789\nKEY=" + key:        key,
		"KEY=":                                    "",
		"KEY=\"\"":                                "",
		"NOKEY=" + key:                            "",
		"KEY":                                     "",
		"":                                        "",
	} {
		k := Key{Path: filepath.Join(t.TempDir(), ".env"), Pointer: "KEY"}
		must(t, os.WriteFile(k.Path, []byte(text), 0o600))
		if got, err := k.Read(); got != want || (want == "") != errors.Is(err, ErrNone) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

// TestNoKey checks that a path that is not a file itself has no key.
func TestNoKey(t *testing.T) {
	dir := t.TempDir()
	real := filepath.Join(dir, "real.json")
	must(t, os.WriteFile(real, []byte(`{"key":"sk-REAL-0123456789"}`), 0o600))
	must(t, os.Symlink(real, filepath.Join(dir, "link.json")))
	must(t, os.Mkdir(filepath.Join(dir, "dir.json"), 0o700))
	for name, want := range map[string]bool{"none.json": true, "link.json": true, "real.json/x": true, "dir.json": false} {
		got, err := Key{Path: filepath.Join(dir, name), Pointer: "/key"}.Read()
		if got != "" || err == nil || errors.Is(err, ErrNone) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// TestKeyElsewhere checks that a file is looked for where its program would, by the
// variable that names that directory.
func TestKeyElsewhere(t *testing.T) {
	for _, c := range [][3]string{
		{"", "/x", "/home/me/.tool/keys.json"},
		{"TOOL", "/x", "/x/keys.json"},
		{"TOOL/a/b", "/x", "/x/a/b/keys.json"},
		{"TOOL/a/b", "", "/home/me/.tool/keys.json"},
		{"TOOL", "x", "/home/me/.tool/keys.json"}, // a relative path has no known base directory
	} {
		getenv := func(name string) string { return map[string]string{"TOOL": c[1], "": "/none"}[name] }
		how := spec.AgentKey{File: ".tool/keys.json", Directory: c[0], Key: "/key"}
		if got := FindKey(how, "/home/me", getenv).Path; got != c[2] {
			t.Errorf("%q with %q: %s, and not %s", c[0], c[1], got, c[2])
		}
	}
}

// TestPlain checks that settings are read as their programs read them, and that no error quotes them.
func TestPlain(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a.json":  {`{"a":{"url":"https://x"}}`, "https://x"},
		"b.json":  {"{// REAL\n\"a\":{\"url\":\"https://x\",},}", "https://x"},
		"c.jsonc": {"/* REAL */{\"a\":{}}", ""},
		"d.jsonc": {"{REAL", "not a JSON object"},
		"e.json":  {`{"a":` + strings.Repeat("[", maxNested-10), "not a JSON object"},
		"f.json":  {`{"a":` + strings.Repeat("[", maxNested), "not a JSON object"},
		"g.toml":  {"# REAL\n[a]\nurl = \"https://x\"\n", "https://x"},
		"h.toml":  {"b = 1\n", ""},
		"i.toml":  {"REAL", "not TOML"},
		"j.toml":  {"a = " + strings.Repeat("[", maxNested-10), "not TOML"},
		"k.toml":  {"# " + strings.Repeat("x", maxNested), "larger than"},
		"l.toml":  {"a.url = 1\n", "not a text"},
		".env":    {"/a/url=https://x", "https://x"},
	} {
		k := Key{Path: filepath.Join(t.TempDir(), name), Pointer: "/a/url"}
		must(t, os.WriteFile(k.Path, []byte(c.text), 0o644))
		got, err := k.Plain()
		if err == nil && got != c.want || err != nil && (c.want == "" || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "REAL")) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
