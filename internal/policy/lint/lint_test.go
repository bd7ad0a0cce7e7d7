package lint

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/policy"
)

func TestLint(t *testing.T) {
	tests := []struct {
		name   string
		layers []any
		want   []string // kind and target, in any order
	}{
		{"clean", []any{policy.LayerUser, `{allow: ["a.example:443", {host: api.github.com, methods: [GET]}, "10.1.0.0/16:5432"], deny: ["a.example:443"]}`, policy.LayerSandbox, `presets: [npm]`}, []string{"shadowed a.example:443"}},
		{"nothing", []any{policy.LayerUser, `{allow: ["a.example:443", "10.1.0.0/16:5432"]}`, policy.LayerSandbox, `presets: [npm, github-write]`}, nil},
		{"shadowed by a deny", []any{policy.LayerUser, `{allow: [a.b.example], deny: ["**.example"]}`}, []string{"shadowed a.b.example"}},
		{"not shadowed: other port", []any{policy.LayerUser, `{allow: [a.b.example], deny: ["**.example:22"]}`}, nil},
		{"not shadowed: the deny has conditions", []any{policy.LayerUser, `{allow: [a.b.example], deny: [{host: a.b.example, methods: [POST]}]}`}, nil},
		{"not shadowed: the deny ends first", []any{policy.LayerUser, `{allow: [a.b.example], deny: [{host: "**.example", until: "2026-11-20T13:00:00Z"}]}`}, nil},
		{"nothing new", []any{policy.LayerUser, `allow: ["**.a.example"]`, policy.LayerSandbox, `{allow: ["b.a.example:443", {host: c.a.example, methods: [GET]}]}`}, []string{"shadowed b.a.example:443", "shadowed c.a.example"}},
		{"the same in two layers", []any{policy.LayerUser, `allow: [a.example]`, policy.LayerSandbox, `allow: [a.example]`}, []string{"shadowed a.example"}},
		{"marks are new", []any{policy.LayerUser, `{allow: ["**.a.example", {host: b.a.example, passthrough: true}, {host: c.a.example, inspect: true}]}`}, nil},
		{"a wide rule does not reach private names", []any{policy.LayerUser, `{allow: ["**", db, 10.0.0.0/8, "0.0.0.0/0"]}`}, []string{"wide **", "wide 0.0.0.0/0"}},
		{"wide", []any{policy.LayerUser, `{allow: ["*.com", "**.co.uk", "**.amazonaws.com", "*.github.io", "**.cloudfront.net", "**.workers.dev"]}`}, []string{"wide *.com", "wide **.co.uk", "wide **.amazonaws.com", "wide *.github.io", "wide **.cloudfront.net", "wide **.workers.dev"}},
		{"not wide", []any{policy.LayerUser, `{allow: ["*.acme.github.io", "**.example.com"]}`}, nil},
		{"drop", []any{policy.LayerUser, `{allow: [pastebin.com, webhook.site, transfer.sh, "**.googleapis.com", {host: gist.github.com, methods: [GET]}]}`}, []string{"drop pastebin.com", "drop webhook.site", "drop transfer.sh", "drop **.googleapis.com"}},
		{"drop with a path", []any{policy.LayerUser, `{allow: [{host: storage.googleapis.com, paths: ["/mine/**"]}, {host: s3.amazonaws.com, paths: ["/**"]}]}`}, []string{"drop s3.amazonaws.com"}},
		{"drop with a budget", []any{policy.LayerUser, `{allow: [{host: pastebin.com, max_upload: 10MiB}]}`}, nil},
		{"a budget that does not count", []any{policy.LayerUser, `{allow: [a.example, {host: a.example, methods: [PUT], max_upload: 1MiB}]}`}, []string{"shadowed a.example"}},
		{"a larger budget", []any{policy.LayerUser, `{allow: [{host: "*.a.example", max_upload: 1MiB}, {host: b.a.example, max_upload: 2MiB}, {host: c.a.example, max_upload: 1MiB}, d.a.example]}`}, []string{"shadowed c.a.example"}},
		{"fronting", []any{policy.LayerUser, `{allow: [a.cloudfront.net, {host: b.cloudfront.net, inspect: true}]}`}, []string{"fronting a.cloudfront.net"}},
		{"fronting, all inspected", []any{policy.LayerUser, `{inspect: all, allow: [a.cloudfront.net]}`}, nil},
		{"plain HTTP", []any{policy.LayerUser, `{allow: ["a.example:80", "*.b.example:80", "c.example:443", d.example, "10.1.0.0/16:80", {host: "f.example:80", passthrough: true}]}`}, []string{"fronting a.example:80", "fronting *.b.example:80", "fronting f.example:80"}},
		{"plain HTTP, inspected", []any{policy.LayerUser, `{allow: [{host: "a.example:80", inspect: true}, {host: "b.example:80", methods: [GET]}, "c.example:80"], deny: [{host: c.example, methods: [POST]}]}`}, nil},
		{"plain HTTP, all inspected", []any{policy.LayerUser, `{inspect: all, allow: ["a.example:80", {host: "b.example:80", passthrough: true}]}`}, []string{"fronting b.example:80"}},
		{"plain HTTP to a content network", []any{policy.LayerUser, `{allow: ["a.cloudfront.net:80"]}`}, []string{"fronting a.cloudfront.net:80"}},
		{"metadata", []any{policy.LayerUser, `{allow: [169.254.169.254, 169.254.0.0/16, "[fd00::/8]"]}`}, []string{"metadata 169.254.169.254", "metadata 169.254.0.0/16", "metadata [fd00::/8]"}},
		{"the network inside", []any{policy.LayerUser, `allow: [198.18.0.1, "198.18.0.0/15:443", "[fd62:6f74:6879::2]"]`}, []string{"inner 198.18.0.1", "inner 198.18.0.0/15:443", "inner [fd62:6f74:6879::2]"}},
		{"the network inside and more", []any{policy.LayerUser, `allow: ["198.0.0.0/8"]`}, nil},
		{"the host", []any{policy.LayerUser, `allow: ["127.0.0.1:5432"]`}, []string{"host 127.0.0.1:5432"}},
		{"never", []any{policy.LayerUser, `allow: ["224.0.0.0/8"]`}, []string{"no-effect 224.0.0.0/8"}},
		{"expired", []any{policy.LayerUser, `{allow: [{host: a.example, until: "2026-11-20T12:00:00Z"}]}`}, []string{"expired a.example"}},
		{"a deny of what nobody allows", []any{policy.LayerUser, `{allow: [a.example], deny: [b.example, "a.example:22"]}`}, []string{"no-effect b.example"}},
		{"a deny of addresses counts for names", []any{policy.LayerUser, `{allow: [a.example], deny: [93.184.0.0/16]}`}, nil},
		{"open", []any{policy.LayerUser, `{default: allow, allow: [a.example, db], deny: [b.example]}`}, []string{"open", "no-effect a.example"}},
		{"open that does not count", []any{policy.LayerUser, `default: deny`, policy.LayerSandbox, `presets: [open]`, policy.LayerCommand, `default: allow`}, []string{"no-effect"}},
		{"passthrough that does not count", []any{policy.LayerUser, `{allow: [{host: a.example, passthrough: true}], deny: [{host: a.example, methods: [POST]}]}`}, []string{"passthrough a.example"}},
		{"a project asks in vain", []any{policy.LayerUser, `allow: ["a.example:443"]`, policy.LayerProject, `{allow: [a.example, b.example]}`}, []string{"ungranted b.example"}},
		{
			"a project asks in vain for an address that only a rule by name opens",
			[]any{
				policy.LayerUser, `allow: ["**", "10.0.0.0/8:5432", "169.254.0.0/16"]`,
				policy.LayerProject, `allow: [good.example, db, "*.corp", "10.9.9.9:5432", 10.8.8.8, "10.9.9.9:80", 192.168.0.0/16, 169.254.169.254, 93.184.216.34]`,
			},
			[]string{
				"wide **", "metadata 169.254.0.0/16", "ungranted db", "ungranted *.corp", "ungranted 10.9.9.9:80", "ungranted 192.168.0.0/16",
				"ungranted 169.254.169.254",
			},
		},
		{"a project asks for everything", []any{policy.LayerUser, `allow: ["**"]`, policy.LayerProject, `allow: ["**", 0.0.0.0/0]`}, []string{"wide **"}},
		{"a project asks an open default in vain", []any{policy.LayerUser, `default: allow`, policy.LayerProject, `allow: [good.example, db, 10.9.9.9, 93.184.216.34]`}, []string{"open", "ungranted db", "ungranted 10.9.9.9"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var inputs []policy.Input
			for i := 0; i < len(tt.layers); i += 2 {
				inputs = append(inputs, policy.Input{Layer: tt.layers[i].(policy.Layer), Block: blockOf(t, tt.layers[i+1].(string))})
			}
			found, err := Rules(noon, inputs...)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range found {
				s := string(f.Kind)
				if f.Rule != nil {
					s += " " + f.Rule.Target.String()
				}
				got = append(got, s)
				if !strings.HasPrefix(f.String(), string(f.Kind)+": ") {
					t.Errorf("the finding reads %q", f)
				}
			}
			slices.Sort(got)
			want := slices.Sorted(slices.Values(tt.want))
			if !slices.Equal(got, want) {
				t.Errorf("found\n%s\nwant\n%s", fmt.Sprint(found), strings.Join(want, "\n"))
			}
		})
	}
}

// TestLintTellsOfSpelledNames checks that the linter names the remaining effect of an exact name beside
// a wider rule: its lookups are not rationed.
func TestLintTellsOfSpelledNames(t *testing.T) {
	for yaml, want := range map[string]string{
		`{allow: ["**.a.example", b.a.example]}`:     `shadowed: allow "b.a.example" (user) says nothing new beside "**.a.example" (user); but its name is not rationed`,
		`{allow: ["**.a.example", "*.b.a.example"]}`: `shadowed: allow "*.b.a.example" (user) says nothing new beside "**.a.example" (user)`,
		`{allow: [a.example, "a.example:443"]}`:      `shadowed: allow "a.example:443" (user) says nothing new beside "a.example" (user)`,
		`{default: allow, allow: [a.example]}`:       `no-effect: allow "a.example" (user) says nothing new: the default is allow; but its name is not rationed`,
	} {
		found, err := Rules(noon, policy.Input{Layer: policy.LayerUser, Block: blockOf(t, yaml)})
		if err != nil || len(found) == 0 || found[len(found)-1].String() != want {
			t.Errorf("%s: %v, %v, want %s", yaml, found, err, want)
		}
	}
}
