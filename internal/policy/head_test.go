package policy

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

// TestPresetsInPlace checks that naming a preset, removing it and choosing a default change only their
// own line.
func TestPresetsInPlace(t *testing.T) {
	tests := []struct {
		name, before string
		change       func(*File) error
		want         string
	}{
		{
			"first", "version: 1 # ours\n# hosts\nallow:\n  - a.example # tail\n", func(f *File) error { return f.AddPreset("npm") },
			"version: 1 # ours\npresets: [npm]\n# hosts\nallow:\n  - a.example # tail\n",
		},
		{"another", "version: 1\npresets: [npm]\n# end\n", func(f *File) error { return f.AddPreset("go") }, "version: 1\npresets: [npm, go]\n# end\n"},
		{"again", "version: 1\npresets: [npm]\n", func(f *File) error { return f.AddPreset("npm") }, "version: 1\npresets: [npm]\n"},
		{
			"to a list", "version: 1\npresets:\n  - npm\n  - go\ndeny:\n  - a.example\n", func(f *File) error { return f.AddPreset("pypi") },
			"version: 1\npresets: [npm, go, pypi]\ndeny:\n  - a.example\n",
		},
		{"one out", "version: 1\npresets: [npm, go]\n", func(f *File) error { return f.RemovePreset("npm") }, "version: 1\npresets: [go]\n"},
		{"last out", "# top\nversion: 1\npresets:\n  - npm\n# end\n", func(f *File) error { return f.RemovePreset("npm") }, "# top\nversion: 1\n# end\n"},
		{"into nothing", "", func(f *File) error { return f.AddPreset("npm") }, "version: 1\npresets: [npm]\n"},
		{"default", "version: 1\nallow: [a.example]\n", func(f *File) error { return f.SetDefault(Allow) }, "version: 1\ndefault: allow\nallow: [a.example]\n"},
		{"other default", "version: 1\ndefault: allow # once\n# end\n", func(f *File) error { return f.SetDefault(Deny) }, "version: 1\ndefault: deny\n# end\n"},
		{"odd form", "{version: 1, presets: [npm]}\n", func(f *File) error { return f.AddPreset("go") }, "version: 1\npresets: [npm, go]\n"},
	}
	for _, tt := range tests {
		f := &File{}
		if tt.before != "" {
			var err error
			if f, err = DecodeFile([]byte(tt.before)); err != nil {
				t.Fatal(err)
			}
		}
		if err := tt.change(f); err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if got := string(f.Encode()); got != tt.want {
			t.Errorf("%s: the file is\n%swant\n%s", tt.name, got, tt.want)
		}
		if _, err := DecodeFile(f.Encode()); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestPresetMistakes(t *testing.T) {
	read := func(text string) *File {
		f, err := DecodeFile([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for _, tt := range []struct {
		change func() error
		want   error
	}{
		{func() error { return read("version: 1\n").AddPreset("") }, spec.ErrUsage},
		{func() error { return read("version: 1\n").AddPreset("nope") }, spec.ErrNotFound},
		{func() error { return read("version: 1\npresets: [npm]\n").AddPreset("none") }, spec.ErrUsage},
		{func() error { return read("version: 1\npresets: [none]\n").AddPreset("npm") }, spec.ErrUsage},
		{func() error { return read("version: 1\npresets: [npm]\n").RemovePreset("go") }, spec.ErrNotFound},
		{func() error { return read("version: 1\n").SetDefault(0) }, spec.ErrUsage},
	} {
		if err := tt.change(); !errors.Is(err, tt.want) {
			t.Errorf("%v, want %v", err, tt.want)
		}
	}
}

// TestPut checks that Put replaces the unconditional rules of a target and keeps its rules
// with conditions.
func TestPut(t *testing.T) {
	f, err := DecodeFile([]byte("version: 1\nallow:\n  - a.example\n  - {host: a.example, passthrough: true}\n  - {host: a.example, methods: [GET]}\n  - a.example:443\n"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := ParseRule(Deny, "A.example.")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Put(r); err != nil {
		t.Fatal(err)
	}
	if len(f.Allow) != 2 || len(f.Deny) != 1 || len(f.Allow[0].HTTP.Methods) != 1 || f.Allow[1].Target.Port() != 443 {
		t.Errorf("%s", f.Encode())
	}
}

func TestMatches(t *testing.T) {
	addr := netip.MustParseAddr
	for _, tt := range []struct {
		target, name string
		addr         netip.Addr
		port         uint16
		want         bool
	}{
		{"*.example.com", "a.example.com", netip.Addr{}, 443, true},
		{"*.example.com", "example.com", netip.Addr{}, 443, false},
		{"example.com:443", "example.com", netip.Addr{}, 80, false},
		{"10.0.0.0/8", "a.example", addr("10.1.1.1"), 22, true},
		{"10.0.0.0/8", "a.example", netip.Addr{}, 22, false},
		{"**", "", addr("10.1.1.1"), 22, true},
		{"**", "", netip.Addr{}, 22, false},
	} {
		target, err := ParseTarget(tt.target)
		if err != nil {
			t.Fatal(err)
		}
		if got := target.Matches(tt.name, tt.addr, tt.port); got != tt.want {
			t.Errorf("%s, %q %v %d: %t", tt.target, tt.name, tt.addr, tt.port, got)
		}
	}
}

// TestAttackA21ContradictionsAreTold checks that an allow rule within a deny rule is reported when it is
// written, whatever their layers and their order (A21).
func TestAttackA21ContradictionsAreTold(t *testing.T) {
	block := func(text string) Block {
		b, err := decodeBlock(text)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, tt := range []struct {
		user, sandbox string
		want          []string
	}{
		{`{deny: ["**.example.com"]}`, `{allow: [api.example.com, "api.example.com:443", example.com]}`, []string{"api.example.com", "api.example.com:443"}},
		{`{allow: [api.example.com]}`, `{deny: ["*.example.com"]}`, []string{"api.example.com"}},
		{`{presets: [none]}`, `{allow: [10.0.0.0/8, "**"]}`, []string{"10.0.0.0/8", "**"}},
		{`{deny: ["api.example.com:443"]}`, `{allow: [api.example.com]}`, nil},
		{`{deny: [{host: api.example.com, methods: [POST]}]}`, `{allow: [api.example.com]}`, nil},
		{`{deny: [{host: api.example.com, until: 2001-01-01T00:00:00Z}]}`, `{allow: [api.example.com]}`, nil},
		{`{deny: [registry.npmjs.org]}`, `{presets: [npm]}`, nil},
	} {
		found, err := Contradictions(noon, Input{LayerUser, block(tt.user)}, Input{LayerSandbox, block(tt.sandbox)})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range found {
			got = append(got, c.Allow.Target.String())
			if s := c.String(); !strings.Contains(s, "never counts") || !strings.Contains(s, c.Deny.Target.String()) {
				t.Errorf("it is told as %q", s)
			}
		}
		if strings.Join(got, " ") != strings.Join(tt.want, " ") {
			t.Errorf("%s and %s: %q, want %q", tt.user, tt.sandbox, got, tt.want)
		}
	}
}
