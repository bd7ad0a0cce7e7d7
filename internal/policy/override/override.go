// Package override finds the parts of a request that ask a server to use another method, path or host
// than the first line says.
package override

import (
	"bytes"
	"slices"
	"strings"

	"github.com/bothy-dev/bothy/internal/policy/ascii"
)

// Fields by which some servers take a request for another one than its first line says. Programs behind
// CGI read an underscore in a name as a dash.
var (
	methodFields = []string{"x-http-method-override", "x-http-method", "x-method-override"}
	pathFields   = []string{
		"x-original-url", "x-rewrite-url", "x-original-uri", "x-forwarded-uri", "x-forwarded-path", "x-override-url",
		"x-http-destinationurl", "x-waws-unencoded-url", "x-envoy-original-path", "x-original-path", "x-rewrite-path",
		"x-forwarded-prefix", "x-forwarded-request-uri", "x-request-uri", "x-replaced-path", "x-script-name", "x-proxy-url",
	}
	// Some servers use these fields to route a request to another host. The policy has not
	// judged the method, path or query for that host.
	hostFields = []string{
		"x-forwarded-host", "x-original-host", "x-http-host-override", "x-host", "x-forwarded-server", "x-host-override",
		"x-http-host", "x-rewrite-host", "x-real-host", "x-forwarded-authority", "x-envoy-original-host", "x-backend-host",
	}
)

// forwarded is a header with a parameter that names a host (RFC 7239).
const forwarded = "forwarded"

// Method returns the part of a request that asks the server to use another method; "" if it asks
// for none. inBody says that its body does.
func Method(header map[string][]string, query string, inBody bool) string {
	if inBody {
		return "the body"
	}
	if name := findField(header, methodFields); name != "" {
		return "field " + name
	}
	if by := otherHost(header); by != "" {
		return by
	}
	if !strings.Contains(query, "%") && !strings.Contains(ascii.Fold(query), "method") {
		return ""
	}
	if NamesMethod([]byte(query)) {
		return "the query"
	}
	return ""
}

// NamesMethod reports whether a complete text has such a parameter.
func NamesMethod(text []byte) bool {
	var names MethodNames
	return names.Finds(text) || names.Finds([]byte("&"))
}

// Path returns the part of a request that asks the server to use another path, and with it another
// query.
func Path(header map[string][]string) string {
	if name := findField(header, pathFields); name != "" {
		return "field " + name
	}
	return otherHost(header)
}

// otherHost returns the part of a request that asks the server to route it to another host.
func otherHost(header map[string][]string) string {
	if name := findField(header, hostFields); name != "" {
		return "field " + name
	}
	for name, values := range header {
		if sameField(name, forwarded) && slices.ContainsFunc(values, namesHost) {
			return "field " + name
		}
	}
	return ""
}

// namesHost reports whether a Forwarded field has the parameter host, as the most lenient reader sees
// it.
func namesHost(value string) bool {
	for part := range strings.FieldsFuncSeq(value, func(r rune) bool { return strings.ContainsRune(",; \t\"", r) }) {
		name, _, _ := strings.Cut(part, "=")
		if strings.EqualFold(name, "host") {
			return true
		}
	}
	return false
}

// IsField reports whether some server takes a request for another one because of a field.
func IsField(field string) bool {
	is := func(f string) bool { return sameField(field, f) }
	return is(forwarded) || slices.ContainsFunc(methodFields, is) || slices.ContainsFunc(pathFields, is) || slices.ContainsFunc(hostFields, is)
}

// findField finds a field of the header, the first if there are several.
func findField(header map[string][]string, fields []string) (found string) {
	for name := range header {
		if len(name) < 2 || name[0]|0x20 != 'x' || found != "" && found < name {
			continue
		}
		if slices.ContainsFunc(fields, func(f string) bool { return sameField(name, f) }) {
			found = name
		}
	}
	return found
}

// sameField compares a name with one in lower case and dashes.
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

// methodParam is the parameter that holds a form's method, because browsers support only
// two methods in forms.
const methodParam = "_method"

// isMethodParam reports whether a decoded name is that of such a parameter, as lenient servers read it.
// PHP drops spaces before it, ends it at the first zero byte, and reads '.' as '_'. Some servers make
// lists of "_method[]" and use the first element, or ignore brackets before the name.
func isMethodParam(name []byte) bool {
	name = bytes.TrimLeft(name, beforeName)
	if n := bytes.IndexAny(name, "\x00[]"); n >= 0 {
		name = name[:n]
	}
	return len(name) == len(methodParam) && (name[0] == '_' || name[0] == '.') && strings.EqualFold(string(name[1:]), methodParam[1:])
}

// beforeName are the characters that some servers ignore before a name.
const beforeName = " []"

// MethodNames looks for the parameters that hold a form's method, in a query or a form body
// that arrives in pieces. A name that cannot be unescaped counts as a match. The zero
// MethodNames is ready for use.
type MethodNames struct {
	inValue bool
	name    []byte // decoded, as far as it may be the one
	escape  []byte // "%X", of it
	broken  bool   // the name had an invalid escape
}

// maxParamName is longer than any name that MethodNames looks for.
const maxParamName = 32

// Finds takes a piece, and reports whether the name of such a parameter ends there.
func (m *MethodNames) Finds(piece []byte) bool {
	for i := 0; i < len(piece); i++ {
		if m.inValue {
			n := bytes.IndexAny(piece[i:], "&;")
			if n < 0 {
				return false
			}
			i += n
			m.inValue = false
			continue
		}
		switch c := piece[i]; {
		case c == '=' || c == '&' || c == ';':
			if m.broken || len(m.escape) > 0 || isMethodParam(m.name) {
				return true
			}
			m.name, m.inValue = m.name[:0], c == '='
		case len(m.name) >= maxParamName:
		case c == '%' || len(m.escape) > 0:
			m.unescape(c)
		case c == '+':
			m.addChar(' ')
		case c != '\r' && c != '\n': // they may precede a form
			m.addChar(c)
		}
	}
	return false
}

// addChar appends a character of the name. It drops the ignored characters before the name, which may be
// longer than any name.
func (m *MethodNames) addChar(c byte) {
	if len(m.name) > 0 || strings.IndexByte(beforeName, c) < 0 {
		m.name = append(m.name, c)
	}
}

func (m *MethodNames) unescape(c byte) {
	if m.escape = append(m.escape, c); len(m.escape) < len("%XX") {
		return
	}
	v, ok := ascii.HexByte(string(m.escape[1:]))
	m.addChar(v)
	m.broken, m.escape = m.broken || !ok, m.escape[:0]
}
