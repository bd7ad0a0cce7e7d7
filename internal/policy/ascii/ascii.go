// Package ascii compares and shows text of which only the letters of ASCII count, as in names, paths
// and headers that may come from anybody.
package ascii

import (
	"strconv"
	"strings"
)

// Fold makes ASCII letters lower case. It does not allocate if there are none
// to change.
func Fold(s string) string {
	for i := range len(s) {
		if 'A' <= s[i] && s[i] <= 'Z' {
			return strings.ToLower(s) // all callers have ASCII
		}
	}
	return s
}

// IsASCII tells texts of nothing else.
func IsASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// IsAlphanumeric tells letters and digits.
func IsAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || IsDigit(c)
}

// IsDigit tells decimal digits.
func IsDigit(c byte) bool { return c >= '0' && c <= '9' }

// HexByte reads the two hexadecimal digits that a text begins with.
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

// Quote shows text that may come from anybody: escaped, and not at any length.
func Quote(s string) string {
	const most = 120
	if len(s) > most {
		return strconv.QuoteToASCII(s[:most]) + "…"
	}
	return strconv.QuoteToASCII(s)
}
