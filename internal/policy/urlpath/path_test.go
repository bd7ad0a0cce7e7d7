package urlpath

import (
	"errors"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/bothy-dev/bothy/spec"
)

func TestNormalizePath(t *testing.T) {
	tests := []struct{ in, want string }{
		{"/", "/"},
		{"/a", "/a"},
		{"/a/", "/a/"},
		{"/repos/acme/app/pulls", "/repos/acme/app/pulls"},
		{"/%61", "/a"},
		{"/%7Euser", "/~user"},
		{"/%7euser", "/~user"},
		{"/a%20b", "/a%20b"},
		{"/%c3%a4", "/%C3%A4"},
		{"/%40types/node", "/@types/node"},
		{"/a%2Bb", "/a+b"},
		{"/a%3Bb", "/a;b"},
		{"/*", "/%2A"},
		{"/%2a", "/%2A"},
		{"/a%25", "/a%25"},
		{"/a%25zz", "/a%25zz"},
		{"/[a]|b", "/%5Ba%5D%7Cb"},
		{"/.a/..b/...c", "/.a/..b/...c"},
		{"/a;v=1/b", "/a;v=1/b"},
		{"/v1beta/models/gemini:streamGenerateContent", "/v1beta/models/gemini:streamGenerateContent"},
	}
	for _, tt := range tests {
		got, err := Normalize(tt.in)
		if got != tt.want || err != nil {
			t.Errorf("normalizePath(%q) = %q, %v; want %q", tt.in, got, err, tt.want)
		}
	}
}

func TestNormalizePathRefuses(t *testing.T) {
	ambiguous := []string{
		"//", "//a", "/a//b", "/a//", "/.", "/..", "/a/../b", "/a/./b", "/a/..", "/../a",
		"/%2e", "/%2e%2e/", "/.%2e/", "/%2E./a", "/a/..;/b", "/a/..%20/b", "/%20/a", "/a/.;x/b", "/..;a=b", "/;a/b", "/a/;",
		"/a%2fb", "/a%2Fb", "/@types%2fnode", "/a%5cb", "/a%5Cb", "/a/..%5cb", "/..%2f",
		"/a%252fb", "/a%252e%252e/b", "/%2525", "/a%25%32%66b", "/%25%32e",
		"/%c0%af", "/%c0%ae%c0%ae/", "/%ff", "/%e0%80%af", "/%c3",
		"/%ef%bc%8f", "/%ef%bc%8e%ef%bc%8e/", "/%e2%80%a4%e2%80%a4/", "/%ef%bc%bc", "/%ef%bc%852e",
	}
	malformed := []string{
		"", "a", "*", "http://a/", "\\a", "?", "/a b", "/a\tb", "/a\nb", "/a\r\nHost: x", "/a\x00", "/a\x7f", "/\x80", "/ä",
		"/%00", "/a%0a", "/a%0d%0a", "/%1f", "/%7f", "/%", "/%2", "/%zz", "/%2g", "/a?b", "/a#b", `/a\b`,
		`/"`, "/<a>", "/`", "/{a}", "/a^", "/" + strings.Repeat("a", 8<<10),
	}
	for _, l := range []struct {
		paths     []string
		ambiguous bool
	}{{ambiguous, true}, {malformed, false}} {
		for _, p := range l.paths {
			got, fault := Normalize(p)
			if fault == nil || !errors.Is(fault, spec.ErrDenied) || got != "" {
				t.Errorf("normalizePath(%q) = %q, %v", p, got, fault)
				continue
			}
			if fault.Ambiguous != l.ambiguous {
				t.Errorf("normalizePath(%q): ambiguous is %t: %v", p, fault.Ambiguous, fault)
			}
		}
	}
}

func TestPathPattern(t *testing.T) {
	tests := []struct {
		pattern string
		yes, no []string
	}{
		{"/", []string{"/"}, []string{"/a"}},
		{"/a", []string{"/a"}, []string{"/", "/a/", "/ab", "/a/b", "/A"}},
		{"/a/", []string{"/a/"}, []string{"/a", "/a/b"}},
		{"/*", []string{"/a"}, []string{"/", "/a/", "/a/b"}},
		{"/**", []string{"/", "/a", "/a/", "/a/b/c"}, nil},
		{"/repos/acme/**", []string{"/repos/acme/app", "/repos/acme/", "/repos/acme/a/b"}, []string{"/repos/acme", "/repos/acmeevil/x", "/Repos/acme/x", "/repos/evil/acme/x"}},
		{"/repos/*/app", []string{"/repos/acme/app"}, []string{"/repos//app", "/repos/a/b/app", "/repos/acme/app/", "/repos/acme"}},
		{"/*/*/**", []string{"/a/b/c", "/a/b/"}, []string{"/a/b", "/a"}},
		{"/a/*/", []string{"/a/b/"}, []string{"/a/b"}},
		{"/a%20b/%2A", []string{"/a%20b/%2A"}, []string{"/a%20b/x"}},
	}
	for _, tt := range tests {
		p, err := Parse(tt.pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range tt.yes {
			if !p.Matches(s) {
				t.Errorf("%s does not match %s", tt.pattern, s)
			}
		}
		for _, s := range tt.no {
			if p.Matches(s) {
				t.Errorf("%s matches %s", tt.pattern, s)
			}
		}
	}
	for _, s := range []string{
		"", "a", "*", "**", "/a*", "/*a", "/a/**/b", "/***", "/a//b", "/a//**", "//**", "/../**", "/%61", "/a%2fb", "/ä", "/a b", "/%7e", "/a?b",
	} {
		if _, err := Parse(s); !errors.Is(err, spec.ErrUsage) {
			t.Errorf("pattern %q: %v", s, err)
		}
	}
}

// FuzzNormalizePath checks that the normal form is a fixed point with nothing left to
// normalise, and that another reader sees the same segments in it.
func FuzzNormalizePath(f *testing.F) {
	for _, s := range []string{
		"/", "/a/b/", "/%61%7e", "/a%2fb", "/a/../b", "/%2e%2e", "/a%252f", "/%c3%a4", "/%c0%af", "/a;b/c", "/..;/",
		"/*", "//", "/a b", "/%", "/%00", "/[a]", "/%25%32%66", "/%ef%bc%8f", "*", "",
		"/" + strings.Repeat("[", maxPath/2),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, fault := Normalize(s)
		if fault != nil {
			if n != "" {
				t.Fatalf("with the error comes %q", n)
			}
			return
		}
		if again, fault := Normalize(n); again != n || fault != nil {
			t.Fatalf("%q gives %q, which gives %q (%v)", s, n, again, fault)
		}
		if n[0] != '/' || strings.ContainsAny(n, "*\\?# ") || path.Clean(n)+suffix(n) != n {
			t.Fatalf("%q gives %q", s, n)
		}
		decoded, err := url.PathUnescape(s)
		if err != nil {
			t.Fatalf("%q cannot be unescaped: %v", s, err)
		}
		if twice, err := url.PathUnescape(decoded); err == nil && twice != decoded {
			t.Fatalf("%q unescapes twice, to %q and %q", s, decoded, twice)
		}
		segments := strings.Split(s, "/")
		for i, seg := range segments {
			segments[i], _ = url.PathUnescape(seg)
		}
		if !slices.Equal(segments, strings.Split(decoded, "/")) {
			t.Fatalf("%q has segments %q, or %q", s, segments, strings.Split(decoded, "/"))
		}
		if back, err := url.PathUnescape(n); err != nil || back != decoded {
			t.Fatalf("%q gives %q, which is %q", s, n, back)
		}
	})
}

// suffix is the slash that path.Clean removes.
func suffix(p string) string {
	if p != "/" && strings.HasSuffix(p, "/") {
		return "/"
	}
	return ""
}
