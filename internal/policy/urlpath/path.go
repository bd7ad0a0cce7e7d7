// Package urlpath normalises the path of a request to the one form in which rules compare paths, and
// reads the patterns of rules.
package urlpath

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/bothy-dev/bothy/internal/policy/ascii"
	"github.com/bothy-dev/bothy/spec"
)

// maxPath bounds a path, both as it comes and in normal form; servers commonly stop at 8 KiB.
const maxPath = 8 << 10

// Error says why a request path cannot be judged. It is of class [spec.ErrDenied]: the
// path comes from the sandbox, where hints would not be read.
type Error struct {
	Path string
	Why  string
	// Ambiguous paths are legal but read differently by different servers. They are refused
	// only where a rule looks at the path. Other faulty paths are not paths at all, and are
	// always refused.
	Ambiguous bool
}

func (e *Error) Error() string { return "path " + ascii.Quote(e.Path) + " " + e.Why }

// Unwrap returns the class.
func (e *Error) Unwrap() error { return spec.ErrDenied }

// Normalize returns the path of a request, without its query, in the form that rules
// compare. It decodes every escape that is not needed and writes the others with capital
// digits. The result has no "*", which is reserved for patterns. Paths that differ only in
// their escapes give the same result.
//
// It refuses "." and ".." segments, empty segments ("//"), escaped slashes and backslashes, escapes of
// escapes (%252f), bytes that are not UTF-8, characters that Unicode folds to one of these, control
// characters, and everything that RFC 3986 does not allow raw. So an accepted path may be sent on as it
// came: it has only one reading.
func Normalize(p string) (string, *Error) {
	fail := func(why string, ambiguous bool) (string, *Error) {
		return "", &Error{Path: p, Why: why, Ambiguous: ambiguous}
	}
	switch {
	case p == "" || p[0] != '/':
		return fail("does not begin with '/'", false)
	case len(p) > maxPath:
		return fail("is longer than 8192 bytes", false)
	}
	if plainPath(p) {
		if why := ambiguousSegments(p); why != "" {
			return fail(why, true)
		}
		return p, nil
	}
	decoded, why := unescapePath(p)
	if why != "" {
		return fail(why, false)
	}
	if why = ambiguousText(p, decoded); why == "" {
		why = ambiguousSegments(decoded)
	}
	if why != "" {
		return fail(why, true)
	}
	normal := escapePath(decoded)
	if len(normal) > maxPath {
		return fail("is longer than 8192 bytes when escaped", false)
	}
	return normal, nil
}

// plainPath reports whether a path needs no decoding.
func plainPath(p string) bool {
	for i := range len(p) {
		if !literal(p[i]) && p[i] != '/' {
			return false
		}
	}
	return true
}

// literal reports whether a byte is literal in the normal form: unreserved and sub-delims of RFC 3986,
// ':' and '@', but not '*'.
func literal(c byte) bool {
	switch c {
	case '-', '.', '_', '~', '!', '$', '&', '\'', '(', ')', '+', ',', ';', '=', ':', '@':
		return true
	}
	return ascii.IsAlphanumeric(c)
}

// tolerated reports whether browsers send a byte raw although RFC 3986 requires an escape. No server
// reads these bytes in another way.
func tolerated(c byte) bool { return c == '[' || c == ']' || c == '|' }

func unescapePath(p string) (decoded, why string) {
	b := make([]byte, 0, len(p))
	for i := 0; i < len(p); i++ {
		c := p[i]
		switch {
		case c == '%':
			v, ok := ascii.HexByte(p[i+1:])
			if !ok {
				return "", "has a '%' without two hexadecimal digits"
			}
			if v < ' ' || v == 0x7f {
				return "", "has an escaped control character"
			}
			b, i = append(b, v), i+2
		case literal(c) || tolerated(c) || c == '/' || c == '*':
			b = append(b, c)
		case c < ' ' || c == 0x7f:
			return "", "has a control character"
		default:
			return "", "has a character that must be escaped"
		}
	}
	return string(b), ""
}

// ambiguousText finds text that some servers decode further than others.
func ambiguousText(raw, decoded string) string {
	switch {
	case strings.Count(decoded, "/") != strings.Count(raw, "/"):
		return "has an escaped '/'"
	case strings.Contains(decoded, `\`):
		return `has a '\'`
	case !utf8.ValidString(decoded):
		return "is not UTF-8"
	case strings.ContainsFunc(decoded, lookalike):
		return "has a character that is folded to '.', '/', '\\' or '%'"
	}
	for i := range len(decoded) {
		if _, hex := ascii.HexByte(decoded[i+1:]); hex && decoded[i] == '%' {
			return "has an escaped escape"
		}
	}
	return ""
}

// lookalike reports whether the compatibility form (NFKC) of a character contains a character that
// structures a path.
func lookalike(r rune) bool {
	return r >= 0x80 && strings.ContainsAny(norm.NFKC.String(string(r)), `./\%`)
}

// ambiguousSegments finds segments that servers drop or climb by. Some servers treat the text after a
// ';' as a parameter and ignore trailing dots, spaces and invisible characters. So "..;x" is a "..", and
// so is ".. ".
func ambiguousSegments(p string) string {
	rest, more := p[1:], true
	for more {
		var seg string
		seg, rest, more = strings.Cut(rest, "/")
		if seg != "" && ascii.IsAlphanumeric(seg[0]) { // most segments begin so
			continue
		}
		bare, _, _ := strings.Cut(seg, ";")
		spaces := strings.TrimFunc(bare, func(r rune) bool { return r != '.' && trailing(r) })
		switch {
		case spaces == "" && (more || seg != ""):
			return "has an empty segment"
		case spaces == "." || spaces == "..":
			return "has a '.' or '..' segment"
		case bare != "" && strings.TrimFunc(bare, trailing) == "":
			return "has a segment of dots"
		}
	}
	return ""
}

func escapePath(p string) string {
	const digits = "0123456789ABCDEF"
	b := make([]byte, 0, len(p)+8)
	for i := range len(p) {
		if c := p[i]; literal(c) || c == '/' {
			b = append(b, c)
		} else {
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	return string(b)
}
