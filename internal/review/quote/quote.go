// Package quote writes paths and lines that others chose so that a terminal does nothing but show them.
package quote

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bothy-dev/bothy/internal/term"
)

// Path writes a path as git does where it must be quoted, so that nothing in it reaches a terminal and
// git apply reads it. Letters of all scripts stay.
func Path(path string) string {
	if isPlain(path) {
		return path
	}
	var b strings.Builder
	b.WriteByte('"')
	for i, last := 0, rune(0); i < len(path); {
		r, n := utf8.DecodeRuneInString(path[i:])
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteByte(byte(r))
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case visible(last, r, n):
			b.WriteString(path[i : i+n])
		default:
			for _, c := range []byte(path[i : i+n]) {
				fmt.Fprintf(&b, `\%03o`, c)
			}
		}
		i, last = i+n, r
	}
	b.WriteByte('"')
	return b.String()
}

func isPlain(path string) bool {
	return path != "" && !strings.ContainsAny(path, `"\`) && holdsForAll(path, visible)
}

// holdsForAll reports whether such holds for all characters of a text, given the one before and the
// size.
func holdsForAll(text string, such func(last, r rune, size int) bool) bool {
	last := rune(0)
	for i, r := range text {
		_, n := utf8.DecodeRuneInString(text[i:])
		if !such(last, r, n) {
			return false
		}
		last = r
	}
	return true
}

// visible reports whether a terminal shows a character as itself. It is false for one that is not
// text, controls a terminal, changes the direction or the look of others, or shows nothing.
func visible(last, r rune, size int) bool {
	return (r != utf8.RuneError || size > 1) && (r == ' ' || unicode.IsGraphic(r) && !unicode.IsSpace(r) && !term.Hides(last, r))
}

// Parse reads the output of Quote; it returns an unquoted text as it is.
func Parse(text string) (string, error) {
	if !strings.HasPrefix(text, `"`) {
		return text, nil
	}
	path, err := strconv.Unquote(text)
	if err != nil {
		return "", fmt.Errorf("%s is quoted, but not as it should be", text)
	}
	return path, nil
}

// Line writes a line of a file so that a terminal does nothing but show it.
func Line(line string) string {
	body, end := line, ""
	for _, e := range []string{"\r\n", "\n"} {
		if rest, ok := strings.CutSuffix(line, e); ok {
			body, end = rest, e
			break
		}
	}
	if holdsForAll(body, isShown) {
		return line
	}
	var b strings.Builder
	for i, last := 0, rune(0); i < len(body); {
		r, n := utf8.DecodeRuneInString(body[i:])
		switch {
		case isShown(last, r, n):
			b.WriteString(body[i : i+n])
		case n == 1:
			fmt.Fprintf(&b, `\x%02x`, body[i])
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i, last = i+n, r
	}
	return b.String() + end
}

// isShown reports whether a terminal shows a character within a text.
func isShown(last, r rune, size int) bool {
	return r == '\t' || visible(last, r, size) || unicode.IsSpace(r) && r > 0x9f && !term.Hides(last, r)
}
