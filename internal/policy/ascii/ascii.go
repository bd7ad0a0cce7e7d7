// Package ascii compares and quotes text in which only ASCII letters count, such as names, paths and
// headers from untrusted sources.
package ascii

import (
	"strconv"
	"strings"
)

// Fold makes ASCII letters lower case. It does not allocate if nothing changes.
func Fold(s string) string {
	for i := range len(s) {
		if 'A' <= s[i] && s[i] <= 'Z' {
			return strings.ToLower(s) // all callers pass ASCII
		}
	}
	return s
}

// IsASCII reports whether a text is only ASCII.
func IsASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// IsAlphanumeric reports whether a character is a letter or a digit.
func IsAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || IsDigit(c)
}

// IsDigit reports whether a character is a decimal digit.
func IsDigit(c byte) bool { return c >= '0' && c <= '9' }

// HexByte reads two hexadecimal digits at the beginning of a text.
func HexByte(s string) (byte, bool) {
	if len(s) < 2 {
		return 0, false
	}
	hi, ok1 := hexDigit(s[0])
	lo, ok2 := hexDigit(s[1])
	return hi<<4 | lo, ok1 && ok2
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case IsDigit(c):
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

// Quote formats text from untrusted sources: escaped, and of limited length.
func Quote(s string) string {
	const most = 120
	if len(s) > most {
		return strconv.QuoteToASCII(s[:most]) + "…"
	}
	return strconv.QuoteToASCII(s)
}
