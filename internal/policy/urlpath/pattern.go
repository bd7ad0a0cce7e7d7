package urlpath

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/bothy-dev/bothy/internal/policy/ascii"
	"github.com/bothy-dev/bothy/spec"
)

// Pattern is a path of a rule: literal segments, "*" for exactly one segment that is not empty, and at
// the end "**" for one or more.
type Pattern struct {
	segments []string
	open     bool   // ends in "**"
	lead     string // the text before the first wildcard: most paths differ there
	plain    bool   // lead is everything but the "**"
}

// Parse reads a pattern. Its literal segments must be in the form of Normalize, because paths are
// compared in that form.
func Parse(s string) (Pattern, error) {
	fail := func(why string) (Pattern, error) {
		return Pattern{}, spec.Errorf(spec.ErrUsage, "path %s %s", ascii.Quote(s), why)
	}
	if s == "" || s[0] != '/' {
		return fail("does not begin with '/'")
	}
	segments := strings.Split(s[1:], "/")
	var p Pattern
	if last := len(segments) - 1; segments[last] == "**" {
		p.open, segments = true, segments[:last]
	}
	for _, seg := range segments {
		if strings.Contains(seg, "*") && seg != "*" {
			return fail("has a '*' that is not a whole segment, or a '**' that is not the last one")
		}
		if seg == "" && p.open {
			return fail("has an empty segment")
		}
	}
	p.segments = segments
	plain := strings.ReplaceAll("/"+strings.Join(segments, "/"), "*", "x")
	switch n, err := Normalize(plain); {
	case err != nil:
		return fail(err.Why)
	case n != plain:
		return Pattern{}, spec.Errorf(spec.ErrUsage, "path %s is not in the form paths are compared in", ascii.Quote(s)).
			WithHint("decode what need not be escaped, and write the rest as %%XX with capital digits")
	}
	return p.withLead(), nil
}

// New returns the pattern of some segments; "*" stands for any segment. An open pattern continues with
// one or more segments.
func New(segments []string, open bool) Pattern {
	return Pattern{segments: segments, open: open}.withLead()
}

// BeginsOpen reports whether the first segment may be any.
func (p *Pattern) BeginsOpen() bool { return len(p.segments) == 0 || p.segments[0] == "*" }

// Prefix returns the text before the first wildcard, with which all matching paths begin.
func (p *Pattern) Prefix() string { return p.lead }

// withLead fills in lead.
func (p Pattern) withLead() Pattern {
	path := "/" + strings.Join(p.segments, "/")
	if p.open && len(p.segments) > 0 {
		path += "/"
	}
	p.lead, _, _ = strings.Cut(path, "*")
	p.plain = p.lead == path
	return p
}

// IsEverything reports whether the pattern matches every path.
func (p Pattern) IsEverything() bool { return p.open && len(p.segments) == 0 }

// Matches reads the pattern to the letter, as for an allow rule.
func (p *Pattern) Matches(path string) bool {
	if !strings.HasPrefix(path, p.lead) {
		return false
	}
	if p.plain {
		return p.open || len(path) == len(p.lead)
	}
	rest, more := path[1:], true
	for _, want := range p.segments {
		var seg string
		if !more {
			return false
		}
		seg, rest, more = strings.Cut(rest, "/")
		if want != seg && (want != "*" || seg == "") {
			return false
		}
	}
	return p.open == more
}

// MatchesLoosely reads the pattern as for a deny rule: both sides have gone through Loosen, and "/x/**"
// includes "/x".
func (p *Pattern) MatchesLoosely(path string) bool {
	if !strings.HasPrefix(path, p.lead) {
		return false
	}
	rest, more := path[1:], true
	for _, want := range p.segments {
		var seg string
		if !more {
			return false
		}
		seg, rest, more = strings.Cut(rest, "/")
		if want != seg && want != "*" {
			return false
		}
	}
	return p.open || !more
}

// Loosened prepares a pattern for MatchesLoosely.
func (p Pattern) Loosened() Pattern {
	path := Loosen("/" + strings.Join(p.segments, "/"))
	if len(p.segments) > 0 {
		p.segments = strings.Split(path[1:], "/")
	}
	p.lead, _, _ = strings.Cut(path, "*")
	return p
}

// Loosen removes the parts that some servers ignore, so that two paths that any server reads alike
// become equal: see looseSegment. It also removes a slash at the end. It does not handle paths that
// servers split into different segments; those are ambiguous.
func Loosen(path string) string {
	segments := strings.Split(path, "/")
	for i, seg := range segments {
		segments[i] = looseSegment(seg)
	}
	path = strings.Join(segments, "/")
	if len(path) > 1 {
		path = strings.TrimSuffix(path, "/")
	}
	return path
}

// looseSegment removes from a segment in normal form the case of letters, compatibility forms (NFKC),
// invisible characters, parameters after ';', NTFS streams after "::" and ":$", and dots and spaces at
// the end. It keeps the wildcard.
func looseSegment(seg string) string {
	if seg == "*" {
		return seg
	}
	if strings.IndexByte(seg, '%') >= 0 {
		decoded, _ := unescapePath(seg) // in normal form, so no error can occur
		decoded = norm.NFKC.String(strings.Map(visible, decoded))
		seg = strings.ToLower(strings.ToUpper(decoded)) // some servers compare in capitals: ı is an I
	}
	seg, _, _ = strings.Cut(ascii.Fold(seg), ";")
	seg, _, _ = strings.Cut(seg, "::")
	seg, _, _ = strings.Cut(seg, ":$")
	return escapePath(strings.TrimRightFunc(seg, trailing))
}

// visible drops invisible characters.
func visible(r rune) rune {
	if unicode.In(r, unicode.Cf, unicode.Variation_Selector) {
		return -1
	}
	return r
}

// trailing reports whether servers, or their file systems, drop a character at the end of a name.
func trailing(r rune) bool { return r == '.' || unicode.IsSpace(r) || visible(r) < 0 }
