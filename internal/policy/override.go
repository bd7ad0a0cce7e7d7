package policy

import (
	"slices"
	"strings"
)

// Fields by which some servers take a request for another one than its first line says.
// To programs behind CGI an underscore in a name is a dash.
var (
	methodFields = []string{"x-http-method-override", "x-http-method", "x-method-override"}
	pathFields   = []string{
		"x-original-url", "x-rewrite-url", "x-original-uri", "x-forwarded-uri", "x-forwarded-path", "x-override-url",
		"x-http-destinationurl", "x-waws-unencoded-url", "x-envoy-original-path",
	}
)

// otherMethod gives by what a request asks to be taken for another method; "" is by nothing.
func (r *Request) otherMethod() string {
	if r.MethodInBody {
		return "the body"
	}
	if name := r.oneOf(methodFields); name != "" {
		return "field " + name
	}
	if !strings.Contains(r.Query, "%") && !strings.Contains(fold(r.Query), "method") {
		return ""
	}
	params, _ := parseQuery(r.Query)
	if slices.ContainsFunc(params, func(p param) bool { return IsMethodParam(p.name) }) {
		return "the query"
	}
	return ""
}

// otherPath gives by what a request asks to be taken for another path, and another query
// with that.
func (r *Request) otherPath() string {
	if name := r.oneOf(pathFields); name != "" {
		return "field " + name
	}
	return ""
}

// AsksOtherwise tells fields by which some server takes a request for another one.
func AsksOtherwise(field string) bool {
	is := func(f string) bool { return sameField(field, f) }
	return slices.ContainsFunc(methodFields, is) || slices.ContainsFunc(pathFields, is)
}

// oneOf finds a field of the header, the first if there are several.
func (r *Request) oneOf(fields []string) (found string) {
	for name := range r.Header {
		if len(name) < 2 || name[0]|0x20 != 'x' || found != "" && found < name {
			continue
		}
		if slices.ContainsFunc(fields, func(f string) bool { return sameField(name, f) }) {
			found = name
		}
	}
	return found
}

// sameField compares a name with one in small letters and dashes.
func sameField(name, want string) bool {
	if len(name) != len(want) {
		return false
	}
	for i := range len(name) {
		c := name[i]
		switch {
		case c == '_':
			c = '-'
		case c >= 'A' && c <= 'Z':
			c |= 0x20
		}
		if c != want[i] {
			return false
		}
	}
	return true
}

// methodParam is what a parameter is called by which forms name a method, as browsers
// have but two.
const methodParam = "_method"

// IsMethodParam tells the name of such a parameter, decoded, also as PHP reads it: without
// spaces before it, to the first zero, and with '.' for '_'.
func IsMethodParam(name string) bool {
	name, _, _ = strings.Cut(strings.TrimLeft(name, " "), "\x00")
	return len(name) == len(methodParam) && strings.IndexByte("_. ", name[0]) >= 0 && strings.EqualFold(name[1:], methodParam[1:])
}
