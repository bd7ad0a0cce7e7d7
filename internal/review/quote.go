package review

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Quote writes a path as git does where it must be quoted, so that nothing in it
// reaches a terminal and git apply reads it. Letters of all scripts stay.
func Quote(path string) string {
	if isPlain(path) {
		return path
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(path); {
		r, n := utf8.DecodeRuneInString(path[i:])
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteByte(byte(r))
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case visible(r, n):
			b.WriteString(path[i : i+n])
		default:
			for _, c := range []byte(path[i : i+n]) {
				fmt.Fprintf(&b, `\%03o`, c)
			}
		}
		i += n
	}
	b.WriteByte('"')
	return b.String()
}

func isPlain(path string) bool {
	for i, r := range path {
		_, n := utf8.DecodeRuneInString(path[i:])
		if r == '"' || r == '\\' || !visible(r, n) {
			return false
		}
	}
	return path != ""
}

// visible tells characters that show themselves from those that are no text,
// control a terminal, or change the direction or the look of others.
func visible(r rune, size int) bool {
	return (r != utf8.RuneError || size > 1) && (r == ' ' || unicode.IsGraphic(r) && !unicode.IsSpace(r))
}

// Unquote reads what Quote writes; what is not quoted is itself.
func Unquote(text string) (string, error) {
	if !strings.HasPrefix(text, `"`) {
		return text, nil
	}
	path, err := strconv.Unquote(text)
	if err != nil {
		return "", fmt.Errorf("%s is quoted, but not as it should be", text)
	}
	return path, nil
}

// Show writes a line of a file so that a terminal does nothing but show it.
func Show(line string) string {
	body, end := line, ""
	for _, e := range []string{"\r\n", "\n"} {
		if rest, ok := strings.CutSuffix(line, e); ok {
			body, end = rest, e
			break
		}
	}
	plain := true
	for i, r := range body {
		_, n := utf8.DecodeRuneInString(body[i:])
		if !shown(r, n) {
			plain = false
			break
		}
	}
	if plain {
		return body + end
	}
	var b strings.Builder
	for i := 0; i < len(body); {
		r, n := utf8.DecodeRuneInString(body[i:])
		if shown(r, n) {
			b.WriteString(body[i : i+n])
		} else if n > 1 {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			fmt.Fprintf(&b, `\x%02x`, body[i])
		}
		i += n
	}
	return b.String() + end
}

func shown(r rune, size int) bool {
	return r == '\t' || visible(r, size) || unicode.IsSpace(r) && r > 0x9f
}
