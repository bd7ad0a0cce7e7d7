package policyfile

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/internal/policy/target"
	"github.com/bothy-dev/bothy/spec"
)

const wholeFile = `# what every sandbox may reach
version: 1
default: deny
inspect: all
presets: [npm, github-read]

allow:
  # the API, all of it
  - "*.example.com:443" # tail
  - 10.0.0.0/8:5432
  - host: api.github.com
    methods: [GET, POST]
    paths: ["/repos/acme/**", /graphql]
    query: ["", "a=b"]
    headers: {accept: text/html, x-any: "*"}
    max_body: 10MiB
    websocket: true
    max_upload: 50MiB
    until: 2026-12-31T18:00:00+01:00
    why: the pull requests, naïvely
  - {host: "[2001:db8::/32]:22", passthrough: true, max_upload: 4096}
  - {host: seen.example.net, inspect: true, max_body: 1500}
  - {host: mcp.example.net, rpc: [tools/list, "tools/call search_*"]}
deny:
- "**.evil.example"
# the end
`

func TestDecodeFile(t *testing.T) {
	f, err := Decode([]byte(wholeFile))
	if err != nil {
		t.Fatal(err)
	}
	if f.Default != policy.Deny || !f.InspectAll || len(f.Presets) != 2 || len(f.Allow) != 6 || len(f.Deny) != 1 {
		t.Errorf("%+v", f.Block)
	}
	r := f.Allow[2]
	want := policy.Rule{
		Action: policy.Allow, Target: target.Target{Kind: target.Exact, Name: "api.github.com"}, Text: "api.github.com",
		HTTP: policy.Conditions{
			Methods: []string{"GET", "POST"}, Paths: []string{"/repos/acme/**", "/graphql"}, Queries: []string{"", "a=b"},
			Headers: map[string]string{"accept": "text/html", "x-any": "*"}, MaxBody: 10 << 20, WebSocket: true,
		},
		MaxUpload: 50 << 20,
		Until:     time.Date(2026, 12, 31, 17, 0, 0, 0, time.UTC), Why: "the pull requests, naïvely",
	}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("rule is\n%+v, want\n%+v", r, want)
	}
	if string(f.Encode()) != wholeFile {
		t.Errorf("what was read is written as\n%s", f.Encode())
	}
}

// TestEncodeAnew checks that the canonical form says the same, and is a fixed point.
func TestEncodeAnew(t *testing.T) {
	f, err := Decode([]byte(wholeFile))
	if err != nil {
		t.Fatal(err)
	}
	anew := File{Block: f.Block}
	text := anew.Encode()
	again, err := Decode(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if !reflect.DeepEqual(again.Block, f.Block) {
		t.Errorf("read back as\n%+v, was\n%+v", again.Block, f.Block)
	}
	if twice := (&File{Block: again.Block}).Encode(); string(twice) != string(text) {
		t.Errorf("written twice:\n%s\n%s", text, twice)
	}
	if got := string((&File{}).Encode()); got != "version: 1\n" {
		t.Errorf("the empty file is %q", got)
	}
}

func TestDecodeErrors(t *testing.T) {
	for text, want := range map[string]string{
		"version: 1\nallow:\n  - example.com\n  - '127.1'\n":         `line 4: rule "127.1": host name "127.1" would be read as an address by some resolvers`,
		"version: 1\nallow:\n  - host: a.example\n    colour: red\n": `line 4: a rule has an unknown key "colour"`,
		"version: 1\nallow:\n":                                                     "line 2: allow has to be a list, and is nothing",
		"version: 1\nallow: []\n":                                                  "line 2: allow is empty",
		"version: 1\ndeny: [a.example, b.example, a.example]\n":                    `line 2: rule "a.example" stands twice in the list of rules that deny`,
		"version: 1\nallow:\n- a.example\n- host: b.example\n- host: A.example.\n": "line 5: rule \"a.example\" stands twice",
		"version: 1\npresets:\n- npm\n- nope\n":                                    `line 4: no preset "nope"`,
		"version: 1\npresets: [npm, npm]\n":                                        "line 2: preset npm stands twice",
		"version: 1\npresets: [npm,\n  none]\n":                                    "line 3: preset none and other presets",
		"version: 1\ninspect: true\n":                                              "line 2: inspect cannot be true or false",
		"version: 1\ndefault: [allow]\n":                                           "line 2: default cannot be a list",
		"version: 1\nallow: [5]\n":                                                 "line 2: a rule has to be text or a map, and is a number",
		"version: 1\nallow: [*.example.com]\n":                                     "YAML takes the '*' for its own",
		"version: 1\nallow: [{host: a.example, methods: [get]}]\n":                 `method "get" is not in capitals`,
		"version: 1\nallow: [{host: a.example, paths: [a]}]\n":                     `path "a" does not begin with '/'`,
		"version: 1\nallow: [{host: a.example, until: tomorrow}]\n":                "until is not a time",
		"version: 1\nallow: [{host: a.example, until: 2026-12-31}]\n":              "until is not a time",
		"version: 1\nallow: [{host: a.example, until: 2026-12-31T18:00:00}]\n":     "until is not a time",
		"version: 1\nallow: [{host: a.example, max_body: 0}]\n":                    "max_body is out of range",
		"version: 1\nallow: [{host: a.example, max_upload: 0}]\n":                  "max_upload is out of range",
		"version: 1\nallow: [{host: a.example, max_upload: -1}]\n":                 "max_upload is not a size",
		"version: 1\nallow: [{host: a.example, max_upload: }]\n":                   "max_upload is not a size",
		"version: 1\nallow: [{host: a.example, max_upload: \"\"}]\n":               "max_upload is not a size",
		"version: 1\nallow: [{host: a.example, max_upload: 8589934592GiB}]\n":      "max_upload is out of range",
		"version: 1\ndeny: [{host: a.example, max_upload: 5}]\n":                   "max_upload belongs to rules that allow",
		"version: 1\nallow: [a.example, {host: a.example, max_upload: 5}]\n":       "stands twice",
		"version: 1\nallow: [{host: a.example, max_body: 10MB}]\n":                 "max_body is not a size",
		"version: 1\nallow: [{host: a.example, max_body: 9999999999GiB}]\n":        "max_body is out of range",
		"version: 1\nallow: [{host: a.example, max_body: -1}]\n":                   "max_body is not a size",
		"version: 1\nallow: [{host: a.example, websocket: yes}]\n":                 "websocket has to be true or false, and is text",
		"version: 1\nallow: [{host: a.example, headers: {Accept: x}}]\n":           `header "Accept" is not a lower-case header name`,
		"version: 1\nallow: [{host: a.example, headers: {host: x}}]\n":             "header host frames the request",
		"version: 1\nallow: [{host: a.example, headers: {authorization: x}}]\n":    "header authorization holds a secret",
		"version: 1\nallow: [{host: a.example, methods: [GET, GET]}]\n":            `method "GET" stands twice`,
		"version: 1\nallow: [{host: a.example, methods: [CONNECT]}]\n":             "CONNECT is never let through",
		"version: 1\nallow: [{host: a.example, query: ['?a=b']}]\n":                "begins with '?'",
		"version: 1\ndeny: [{host: a.example, max_body: 5}]\n":                     "belong to rules that allow",
		"version: 1\na: &x [1]\nallow: *x\n":                                       "this part of YAML is not read here",
		"version: 1\nallow: !!set {a.example}\n":                                   "this part of YAML is not read here",
		"version: 1\nallow:\n- |\n  a.example\n":                                   "this part of YAML is not read here",
		"version: 1\n? allow\n: [a.example]\n":                                     "a key is not plain text",
		"version: 1\nallow: [a.example\n":                                          "it is not YAML",
		"version: 1\nallow: " + strings.Repeat("[", 100):                           "nested too deeply",
		"version: 1\nallow:\n" + strings.Repeat("- ", 100) + "a\n":                 "nested too deeply",
		"version: 0\n":     "version 0 is not known",
		"deny: [a.test]\n": "version is missing",
	} {
		_, err := Decode([]byte(text))
		if err == nil || !errors.Is(err, spec.ErrUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gives %v, want %q", text, err, want)
		}
	}
	if _, err := Decode(make([]byte, 2<<20)); err == nil {
		t.Error("a file of 2 MiB is read")
	}
}

// TestDecodeFileWithMark checks that a byte order mark, which some editors write, does not
// become part of the first key.
func TestDecodeFileWithMark(t *testing.T) {
	f, err := Decode([]byte("\ufeffversion: 1\nallow: [a.example] # mine\n"))
	if err != nil || len(f.Allow) != 1 {
		t.Fatalf("%+v, %v", f, err)
	}
	if got := string(f.Encode()); got != "version: 1\nallow: [a.example] # mine\n" {
		t.Errorf("it is written back as %q", got)
	}
	if _, err := Decode([]byte("\ufeff\ufeffversion: 1\n")); err == nil {
		t.Error("two marks are read")
	}
}

// TestEdit checks that adding and removing a rule keeps the text around it.
func TestEdit(t *testing.T) {
	const before = `# mine
version: 1
allow:
  # why a
  - a.example # short

  # why b
  - host: b.example
    methods: [GET] # only that
  # left over
deny: [evil.example, worse.example]
`
	tests := []struct {
		name string
		edit func(*File) error
		want string
	}{
		{"append", func(f *File) error { return f.Add(rule(t, policy.Allow, "c.example:443")) }, `# mine
version: 1
allow:
  # why a
  - a.example # short

  # why b
  - host: b.example
    methods: [GET] # only that
  - "c.example:443"
  # left over
deny: [evil.example, worse.example]
`},
		{"remove the first", func(f *File) error { _, err := f.Remove("a.example"); return err }, `# mine
version: 1
allow:

  # why b
  - host: b.example
    methods: [GET] # only that
  # left over
deny: [evil.example, worse.example]
`},
		{"remove by ID", func(f *File) error { _, err := f.Remove(f.Allow[1].ID()); return err }, `# mine
version: 1
allow:
  # why a
  - a.example # short

  # left over
deny: [evil.example, worse.example]
`},
		{"a list on one line", func(f *File) error { return f.Add(rule(t, policy.Deny, "**.worst.example")) }, `# mine
version: 1
allow:
  # why a
  - a.example # short

  # why b
  - host: b.example
    methods: [GET] # only that
  # left over
deny:
  - "evil.example"
  - "worse.example"
  - "**.worst.example"
`},
		{"the last of a list", func(f *File) error {
			if _, err := f.Remove("evil.example"); err != nil {
				return err
			}
			_, err := f.Remove("worse.example")
			return err
		}, `# mine
version: 1
allow:
  # why a
  - a.example # short

  # why b
  - host: b.example
    methods: [GET] # only that
  # left over
`},
		{"a new end", func(f *File) error {
			r := f.Allow[1]
			r.Until = noon.Add(1500 * time.Millisecond)
			return f.Add(r)
		}, `# mine
version: 1
allow:
  # why a
  - a.example # short

  # why b
  - host: "b.example"
    methods: [GET]
    until: "2026-11-20T12:00:01Z"
  # left over
deny: [evil.example, worse.example]
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := Decode([]byte(before))
			if err != nil {
				t.Fatal(err)
			}
			if err := tt.edit(f); err != nil {
				t.Fatal(err)
			}
			if got := string(f.Encode()); got != tt.want {
				t.Errorf("the file is\n%s", got)
			}
			again, err := Decode(f.Encode())
			if err != nil || !reflect.DeepEqual(again.Block, f.Block) {
				t.Errorf("it reads %+v (%v), want %+v", again.Block, err, f.Block)
			}
		})
	}
}

func TestEditRefuses(t *testing.T) {
	f, err := Decode([]byte("version: 1\nallow: [a.example]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Add(rule(t, policy.Deny, "a.example")); !errors.Is(err, spec.ErrConflict) || !strings.Contains(spec.Hint(err), f.Allow[0].ID()) {
		t.Errorf("a contradiction: %v (%s)", err, spec.Hint(err))
	}
	if err := f.Add(policy.Rule{}); !errors.Is(err, spec.ErrUsage) {
		t.Errorf("no rule: %v", err)
	}
	for _, what := range []string{"b.example", "", "xyz!", "000000000000"} {
		if _, err := f.Remove(what); !errors.Is(err, spec.ErrNotFound) {
			t.Errorf("remove %q: %v", what, err)
		}
	}
	if got := string(f.Encode()); got != "version: 1\nallow: [a.example]\n" {
		t.Errorf("the file is\n%s", got)
	}
}

// TestEditToNothingAndBack checks that removing the only rule leaves a readable file.
func TestEditToNothingAndBack(t *testing.T) {
	f := &File{}
	for range 2 {
		if err := f.Add(rule(t, policy.Allow, "a.example")); err != nil {
			t.Fatal(err)
		}
		if f, _ = Decode(f.Encode()); f == nil {
			t.Fatal("it cannot be read")
		}
		if removed, err := f.Remove("a.example"); err != nil || len(removed) != 1 {
			t.Fatal(removed, err)
		}
		if got := string(f.Encode()); got != "version: 1\n" {
			t.Fatalf("the file is %q", got)
		}
	}
}

func TestPrune(t *testing.T) {
	f, err := Decode([]byte(`version: 1
allow:
  - {host: a.example, until: "2026-11-20T11:00:00Z"}
  - b.example
  - {host: c.example, until: "2026-11-20T13:00:00Z"}
deny:
  - {host: d.example, until: "2026-11-20T12:00:00Z"}
`))
	if err != nil {
		t.Fatal(err)
	}
	removed, err := f.Prune(noon)
	if err != nil || len(removed) != 2 || len(f.Allow) != 2 || f.Deny != nil {
		t.Errorf("removed %v (%v), left %+v", removed, err, f.Block)
	}
}

func TestBlockJSON(t *testing.T) {
	f, err := Decode([]byte(wholeFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range []policy.Block{f.Block, {}} {
		data, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		var got policy.Block
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		if !reflect.DeepEqual(got, b) {
			t.Errorf("%s is read as %+v", data, got)
		}
	}
	for _, text := range []string{
		`null`, `[]`, `""`, `{"allow":null}`, `{"allow":[]}`, `{"allow":["a.example"],"allow":["b.example"]}`, `{"Allow":["a.example"]}`,
		`{"allow":[{"host":"a.example","x":1}]}`, `{"default":"allow","default":"deny"}`, `{"allow":["é.example"]}`, `{"allow":[1]}`,
		`{"allow":` + strings.Repeat("[", 50) + strings.Repeat("]", 50) + `}`,
	} {
		var b policy.Block
		if err := b.UnmarshalJSON([]byte(text)); err == nil {
			t.Errorf("%s is read as %+v", text, b)
		}
	}
}

// TestHintsForEmpty checks that following the hint for an empty list does not widen access.
// Without a condition a rule is wider; without its list a project narrows nothing.
func TestHintsForEmpty(t *testing.T) {
	network := func(text string) error { _, err := policy.DecodeNetwork([]byte(text)); return err }
	file := func(text string) error { _, err := Decode([]byte("version: 1\n" + text)); return err }
	for _, tt := range []struct {
		name string
		err  error
		hint string // a part of it; empty: no hint
	}{
		{"allow", file("allow: []\n"), "nothing is allowed"},
		{"deny", file("deny: []\n"), ""},
		{"presets", file("presets: []\n"), ""},
		{"methods", file("allow: [{host: a.example, methods: []}]\n"), "everything at its host"},
		{"headers", file("allow: [{host: a.example, headers: {}}]\n"), "everything at its host"},
		{"rpc", file("allow: [{host: a.example, rpc: []}]\n"), "everything at its host"},
		{"network", network("network: {}\n"), ""},
		{"allow of a project", network("network: {allow: []}\n"), ""},
		{"paths of a project", network("network: {allow: [{host: a.example, paths: []}]}\n"), "everything at its host"},
	} {
		hint := spec.Hint(tt.err)
		if tt.err == nil || !strings.Contains(tt.err.Error(), "is empty") || (hint == "") != (tt.hint == "") || !strings.Contains(hint, tt.hint) {
			t.Errorf("%s: %v, hint %q", tt.name, tt.err, hint)
		}
	}
}

// TestHintsForWords checks that an error about a wrong word names the possible ones.
func TestHintsForWords(t *testing.T) {
	for text, hint := range map[string]string{
		"version: 1\ninspect: true\n":   "write inspect: all",
		"version: 1\ndefault: closed\n": "write default: allow or deny",
	} {
		if _, err := Decode([]byte(text)); spec.Hint(err) != hint {
			t.Errorf("%q: %v, hint %q, want %q", text, err, spec.Hint(err), hint)
		}
	}
}

// FuzzDecodeFile checks that a decoded file can be written in two ways and read back, and
// that an edit keeps the rest.
func FuzzDecodeFile(f *testing.F) {
	for _, s := range []string{
		wholeFile, "version: 1\n", "version: 1\nallow: [a.example]\n", "version: 1\ndeny:\n- a.example # x\n- {host: b.example, paths: [/a]}\n",
		"version: 1\nallow: []\n", "version: 1\nallow:\n  -\n    host: a.example\n", "{version: 1, allow: [a.example]}\n", "", "null", "- a", "version: 1\nallow: &a [x]\n",
		"version: 1\r\nallow:\r\n- a.example\r\n", "\"version\": 1\n'allow': [\"a.example\"]\n", "version: 1\nallow:\n- \"a.ex\\\n  ample\"\n", "---\nversion: 1\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Decode(data)
		if err != nil {
			if !errors.Is(err, spec.ErrUsage) && !errors.Is(err, spec.ErrNotFound) && !errors.Is(err, spec.ErrNewer) {
				t.Fatalf("error %v is no usage error", err)
			}
			return
		}
		text := (&File{Block: file.Block}).Encode()
		again, err := Decode(text)
		if err != nil || !reflect.DeepEqual(again.Block, file.Block) {
			t.Fatalf("%q is written as\n%s%v", data, text, err)
		}
		js, err := json.Marshal(file.Block)
		var b policy.Block
		if err != nil || json.Unmarshal(js, &b) != nil || !reflect.DeepEqual(b, file.Block) {
			t.Fatalf("%q is written as %s", data, js)
		}
		if _, err := policy.Compile(1, policy.Input{Layer: policy.LayerUser, Block: file.Block}); err != nil {
			t.Fatalf("%q cannot be compiled: %v", data, err)
		}
		added := rule(t, policy.Allow, "added.example:4433")
		added.HTTP.Methods = []string{"PURGE"}
		if err := file.Add(added); err != nil {
			return // the file may have that rule already
		}
		edited, err := Decode(file.Encode())
		if err != nil || !reflect.DeepEqual(edited.Block, file.Block) {
			t.Fatalf("%q edited is\n%s%v", data, file.Encode(), err)
		}
		if _, err := file.Remove(added.ID()); err != nil || !reflect.DeepEqual(file.Block, again.Block) {
			t.Fatalf("%q after both edits is\n%s%v", data, file.Encode(), err)
		}
	})
}

// TestNewerFile checks that a file of a newer version is refused as such, whatever else it contains.
func TestNewerFile(t *testing.T) {
	for _, text := range []string{"version: 2\n", "version: 2\nunheard: [1]\n", "allow: {other: [form]}\nversion: 99\n"} {
		if _, err := Decode([]byte(text)); !errors.Is(err, spec.ErrNewer) || !errors.Is(err, spec.ErrConflict) {
			t.Errorf("%q gives %v", text, err)
		}
	}
}
