package target

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/internal/policy/hostname"
	"github.com/bothy-dev/bothy/spec"
)

func TestParseTarget(t *testing.T) {
	tests := []struct{ in, want string }{ // want is empty for an error
		{"example.com", "example.com"},
		{"example.com:443", "example.com:443"},
		{"EXAMPLE.Com.:443", "example.com:443"},
		{"example.com.", "example.com"},
		{"a", "a"},
		{"a_b.example.com", "a_b.example.com"},
		{"_dmarc.example.com", "_dmarc.example.com"},
		{"xn--bcher-kva.example", "xn--bcher-kva.example"},
		{"1.example", "1.example"},
		{"0xff.example", "0xff.example"},
		{"example.com:1", "example.com:1"},
		{"example.com:65535", "example.com:65535"},
		{"*.example.com", "*.example.com"},
		{"*.Example.com:22", "*.example.com:22"},
		{"**.example.com", "**.example.com"},
		{"**.example.com:443", "**.example.com:443"},
		{"*.com", "*.com"},
		{"**", "**"},
		{"**:25", "**:25"},
		{"192.0.2.1", "192.0.2.1"},
		{"192.0.2.1:80", "192.0.2.1:80"},
		{"192.0.2.1/32", "192.0.2.1"},
		{"10.0.0.0/8", "10.0.0.0/8"},
		{"10.0.0.0/8:5432", "10.0.0.0/8:5432"},
		{"0.0.0.0/0", "0.0.0.0/0"},
		{"[2001:db8::1]", "[2001:db8::1]"},
		{"[2001:DB8:0:0::1]:443", "[2001:db8::1]:443"},
		{"[2001:db8::/32]", "[2001:db8::/32]"},
		{"[2001:db8::/32]:443", "[2001:db8::/32]:443"},
		{"2001:db8::/32", "[2001:db8::/32]"},
		{"[64:ff9b::192.0.2.1]", "[64:ff9b::c000:201]"},
		{"[::/0]", "[::/0]"},

		// empty, or nearly
		{"", ""},
		{" ", ""},
		{".", ""},
		{":", ""},
		{":443", ""},
		{"*", ""},
		{"*:443", ""},
		{"***", ""},
		{"*.", ""},
		{"**.", ""},
		{"null", "null"}, // text is a name of one label; the null of YAML is refused where files are read
		// spaces, controls, other scripts
		{" example.com", ""},
		{"example.com ", ""},
		{"example.com\n", ""},
		{"exam\tple.com", ""},
		{"example.com\x00", ""},
		{"example.com\x7f", ""},
		{"bücher.example", ""},
		{"еxample.com", ""}, // Cyrillic е
		{"example。com", ""}, // ideographic full stop
		{"exаmple.com:443", ""},
		{"example\u200b.com", ""},
		{"ｅxample.com", ""},
		// wildcards in the wrong place
		{"a.*.com", ""},
		{"a*.example.com", ""},
		{"*a.example.com", ""},
		{"*.*.example.com", ""},
		{"**.*.example.com", ""},
		{"example.*", ""},
		{"example.com:*", ""},
		{"api?.example.com", ""},
		{"api[12].example.com", ""},
		{"api[!1].example.com", ""},
		{`\*`, ""},
		// names
		{"a..example.com", ""},
		{".example.com", ""},
		{"example.com..", ""},
		{"-a.example.com", ""},
		{"a-.example.com", ""},
		{"a/b", ""},
		{"example.com/path", ""},
		{"user@example.com", ""},
		{"https://example.com", ""},
		{"a.example,b.example", ""},
		{"a!b.example", ""},
		{strings.Repeat("a", 63) + ".example", strings.Repeat("a", 63) + ".example"},
		{strings.Repeat("a", 64) + ".example", ""},
		{strings.Repeat("a.", 126) + "a", strings.Repeat("a.", 126) + "a"},
		{strings.Repeat("a.", 127) + "a", ""},
		// ports
		{"example.com:", ""},
		{"example.com:0", ""},
		{"example.com:65536", ""},
		{"example.com:99999999999999999999", ""},
		{"example.com:-1", ""},
		{"example.com:+443", ""},
		{"example.com:0443", ""},
		{"example.com:443x", ""},
		{"example.com:https", ""},
		{"example.com:80-90", ""},
		{"example.com:80:90", ""},
		{"example.com:4４3", ""},
		// addresses in odd notation
		{"127.1", ""},
		{"10.1", ""},
		{"0x7f.1", ""},
		{"0x7f000001", ""},
		{"0X7F.0.0.1", ""},
		{"2130706433", ""},
		{"017700000001", ""},
		{"0177.0.0.1", ""},
		{"127.0.0.01", ""},
		{"127.0.0.1.", ""},
		{"256.0.0.1", ""},
		{"1.2.3.4.5", ""},
		{"1.2.3", ""},
		{"example.123", ""},
		{"example.0x1f", ""},
		{"**.1", ""},
		{"*.0.0.1", ""},
		{"2001:db8::1", ""}, // bare
		{"2001:db8::1:443", ""},
		{"[192.0.2.1]", ""},
		{"[example.com]", ""},
		{"[2001:db8::1", ""},
		{"2001:db8::1]", ""},
		{"[2001:db8::1]443", ""},
		{"[2001:db8::1]:", ""},
		{"[]", ""},
		{"[fe80::1%eth0]", ""},
		{"[::ffff:10.0.0.1]", ""},
		{"[::ffff:a00:1]:80", ""},
		{"[::ffff:0:0/96]", ""},
		{"2001:db8::/32:443", ""},
		// CIDRs
		{"10.1.2.3/8", ""},
		{"10.0.0.0/33", ""},
		{"10.0.0.0/-1", ""},
		{"10.0.0.0/08", ""},
		{"10.0.0.0/", ""},
		{"10.0.0/24", ""},
		{"10.0.0.0/255.0.0.0", ""},
		{"[2001:db8::1/32]", ""},
		{"[2001:db8::/129]", ""},
		{"[fe80::%eth0/64]", ""},
		// names that never leave the sandbox
		{"localhost", ""},
		{"localhost:8080", ""},
		{"a.localhost", ""},
		{"**.localhost", ""},
		{"host.bothy", ""},
		{"*.bothy:80", ""},
		{"bothy", ""},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			got, err := Parse(tt.in)
			if tt.want == "" {
				if !errors.Is(err, spec.ErrUsage) {
					t.Errorf("ParseTarget gave %q, error %v; want a usage error", got, err)
				}
				if got != (Target{}) {
					t.Errorf("with the error comes %#v", got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.String() != tt.want {
				t.Errorf("ParseTarget gave %q, want %q", got, tt.want)
			}
		})
	}
}

// TestParseTargetHints checks that an error says what to write instead.
func TestParseTargetHints(t *testing.T) {
	for in, want := range map[string]string{
		"*":                   "** everything",
		"2001:db8::1":         "[2001:db8::1]",
		"10.1.2.3/8":          "10.0.0.0/8",
		"bücher.example":      "xn--",
		"https://example.com": "HOST:PORT",
		"localhost:8080":      "host.bothy",
		"a.example,b.example": "one rule",
		"example.com:0":       "any port",
		"[::ffff:10.0.0.1]":   "IPv4 address",
		"[::]/0":              "[::/0]",
		"[2001:db8::]/32:443": "[2001:db8::/32]:443",
	} {
		_, err := Parse(in)
		if hint := spec.Hint(err); !strings.Contains(hint, want) {
			t.Errorf("ParseTarget(%q): hint %q does not say %q", in, hint, want)
		}
	}
}

func TestTargetMatchesName(t *testing.T) {
	tests := []struct {
		target  string
		yes, no []string
	}{
		{
			"example.com",
			[]string{"example.com"},
			[]string{"a.example.com", "evilexample.com", "example.com.evil.test", "example.co", "xample.com", "com"},
		},
		{
			"*.example.com",
			[]string{"a.example.com", "xn--a.example.com"},
			[]string{"example.com", "b.a.example.com", "evilexample.com", "a.evilexample.com", "a.example.com.evil.test"},
		},
		{
			"**.example.com",
			[]string{"a.example.com", "b.a.example.com", "d.c.b.a.example.com"},
			[]string{"example.com", "evilexample.com", "a.evilexample.com", "a.example.com.evil.test", "a.xexample.com"},
		},
		{"**.com", []string{"a.com", "b.a.com"}, []string{"com", "a.org", "acom"}},
		{"*.com", []string{"a.com"}, []string{"com", "b.a.com"}},
		{"**", []string{"a", "a.example.com"}, nil},
		{"10.0.0.0/8", nil, []string{"a.example.com"}},
	}
	for _, tt := range tests {
		target, err := Parse(tt.target)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range tt.yes {
			if !target.MatchesName(name) {
				t.Errorf("%s does not match %s", target, name)
			}
		}
		for _, name := range tt.no {
			if target.MatchesName(name) {
				t.Errorf("%s matches %s", target, name)
			}
		}
	}
}

func TestTargetCovers(t *testing.T) {
	tests := []struct {
		a, b             string
		covers, overlaps bool
	}{
		{"example.com", "example.com", true, true},
		{"example.com", "example.com:443", true, true},
		{"example.com:443", "example.com", false, true},
		{"example.com:443", "example.com:80", false, false},
		{"*.example.com", "a.example.com", true, true},
		{"*.example.com", "example.com", false, false},
		{"*.example.com", "**.example.com", false, true},
		{"**.example.com", "*.example.com", true, true},
		{"**.com", "**.example.com", true, true},
		{"*.com", "**.example.com", false, false},
		{"*.com", "*.example.com", false, false},
		{"**.example.com", "*.a.example.com", true, true},
		{"**", "10.0.0.0/8:22", true, true},
		{"**:22", "10.0.0.0/8", false, true},
		{"10.0.0.0/8", "10.1.0.0/16", true, true},
		{"10.1.0.0/16", "10.0.0.0/8", false, true},
		{"10.0.0.0/8", "11.0.0.0/8", false, false},
		{"0.0.0.0/0", "[::/0]", false, false},
		{"10.0.0.0/8", "example.com", false, false},
	}
	for _, tt := range tests {
		a, err := Parse(tt.a)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Parse(tt.b)
		if err != nil {
			t.Fatal(err)
		}
		if got := a.Covers(b); got != tt.covers {
			t.Errorf("%s covers %s: %t", a, b, got)
		}
		if got := a.Overlaps(b); got != tt.overlaps {
			t.Errorf("%s overlaps %s: %t", a, b, got)
		}
		if a.Overlaps(b) != b.Overlaps(a) {
			t.Errorf("overlaps of %s and %s depends on the order", a, b)
		}
	}
}

// FuzzParseRule checks that an accepted rule has one spelling, that this spelling means the
// same, and that it contains nothing odd.
func FuzzParseRule(f *testing.F) {
	for _, s := range []string{
		"example.com", "EXAMPLE.com.:443", "*.a.example:1", "**.a.b", "**", "**:25", "10.0.0.0/8:5432",
		"[2001:db8::/32]:443", "2001:db8::/32", "[::ffff:10.0.0.1]", "127.1", "0x7f.1", "a..b", "a:0", "[fe80::1%a]",
		"еxample.com", "a.example,b", "localhost", "\x00", "[", "]:", "*.*", "1.2.3.4/31",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		target, err := Parse(s)
		if err != nil {
			if !errors.Is(err, spec.ErrUsage) {
				t.Fatalf("error %v is no usage error", err)
			}
			return
		}
		text := target.String()
		again, err := Parse(text)
		if err != nil || again != target {
			t.Fatalf("%q reads %q, which reads %q (%v)", s, text, again, err)
		}
		if strings.ToLower(text) != text || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Fatalf("%q reads %q", s, text)
		}
		if p := target.Prefix; target.Kind == Range && (p != p.Masked() || p.Addr().Zone() != "" || p.Addr().Is4In6()) {
			t.Fatalf("%q reads %s", s, p)
		}
		if !target.Covers(target) || !target.Overlaps(target) {
			t.Fatalf("%q does not cover itself", s)
		}
		name, nameErr := hostname.Clean(s)
		addr, addrErr := netip.ParseAddr(s)
		switch {
		case nameErr == nil && text != name:
			t.Fatalf("the name %q reads %q", s, text)
		case addrErr == nil && !target.MatchesAddr(addr):
			t.Fatalf("the address %q reads %q", s, text)
		}
	})
}
