package policy

import (
	"strings"

	"github.com/bothy-dev/bothy/spec"
)

// pathPattern is a path of a rule: literal segments, "*" for exactly one that
// is not empty, and at the end "**" for one or more.
type pathPattern struct {
	segments []string
	open     bool   // ends in "**"
	lead     string // what comes before the first wildcard: most paths differ there
	plain    bool   // lead is all there is but for "**"
}

// parsePathPattern reads a pattern. Its literal segments must be written as
// normalizePath writes them, so that what is read is what is compared.
func parsePathPattern(s string) (pathPattern, error) {
	fail := func(why string) (pathPattern, error) {
		return pathPattern{}, spec.Errorf(spec.ErrUsage, "path %s %s", quote(s), why)
	}
	if s == "" || s[0] != '/' {
		return fail("does not begin with '/'")
	}
	segments := strings.Split(s[1:], "/")
	var p pathPattern
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
	switch n, err := normalizePath(plain); {
	case err != nil:
		return fail(err.Why)
	case n != plain:
		return pathPattern{}, spec.Errorf(spec.ErrUsage, "path %s is not in the form paths are compared in", quote(s)).
			WithHint("decode what need not be escaped, and write the rest as %%XX with capital digits")
	}
	return p.led(), nil
}

// led fills in lead.
func (p pathPattern) led() pathPattern {
	path := "/" + strings.Join(p.segments, "/")
	if p.open && len(p.segments) > 0 {
		path += "/"
	}
	p.lead, _, _ = strings.Cut(path, "*")
	p.plain = p.lead == path
	return p
}

// everything tells the pattern that asks nothing.
func (p pathPattern) everything() bool { return p.open && len(p.segments) == 0 }

// match reads the pattern to the letter, as a rule that allows is read.
func (p *pathPattern) match(path string) bool {
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

// matchLoose reads the pattern as a rule that denies is read: both sides have
// gone through loosePath, and "/x/**" includes "/x".
func (p *pathPattern) matchLoose(path string) bool {
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

// loose prepares a pattern for matchLoose.
func (p pathPattern) loose() pathPattern {
	path := loosePath("/" + strings.Join(p.segments, "/"))
	if len(p.segments) > 0 {
		p.segments = strings.Split(path[1:], "/")
	}
	p.lead, _, _ = strings.Cut(path, "*")
	return p
}

// loosePath removes what many servers ignore: the case of letters, parameters
// behind ';', a slash at the end.
func loosePath(path string) string {
	path = fold(path)
	if strings.Contains(path, ";") {
		segments := strings.Split(path, "/")
		for i, seg := range segments {
			segments[i], _, _ = strings.Cut(seg, ";")
		}
		path = strings.Join(segments, "/")
	}
	if len(path) > 1 {
		path = strings.TrimSuffix(path, "/")
	}
	return path
}
