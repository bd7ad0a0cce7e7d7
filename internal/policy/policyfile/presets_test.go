package policyfile

import (
	"errors"
	"testing"

	"github.com/bothy-dev/bothy/internal/policy"
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
		{"default", "version: 1\nallow: [a.example]\n", func(f *File) error { return f.SetDefault(policy.Allow) }, "version: 1\ndefault: allow\nallow: [a.example]\n"},
		{"other default", "version: 1\ndefault: allow # once\n# end\n", func(f *File) error { return f.SetDefault(policy.Deny) }, "version: 1\ndefault: deny\n# end\n"},
		{"odd form", "{version: 1, presets: [npm]}\n", func(f *File) error { return f.AddPreset("go") }, "version: 1\npresets: [npm, go]\n"},
	}
	for _, tt := range tests {
		f := &File{}
		if tt.before != "" {
			var err error
			if f, err = Decode([]byte(tt.before)); err != nil {
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
		if _, err := Decode(f.Encode()); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestPresetMistakes(t *testing.T) {
	read := func(text string) *File {
		f, err := Decode([]byte(text))
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
	f, err := Decode([]byte("version: 1\nallow:\n  - a.example\n  - {host: a.example, passthrough: true}\n  - {host: a.example, methods: [GET]}\n  - a.example:443\n"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := policy.ParseRule(policy.Deny, "A.example.")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Put(r); err != nil {
		t.Fatal(err)
	}
	if len(f.Allow) != 2 || len(f.Deny) != 1 || len(f.Allow[0].HTTP.Methods) != 1 || f.Allow[1].Target.Port != 443 {
		t.Errorf("%s", f.Encode())
	}
}
