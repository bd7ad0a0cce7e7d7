package term

import (
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// EscapeJSON makes a JSON text safe to show without changing its meaning. It writes DEL, the C1 controls
// and the characters that [Hides] reports as \uXXXX, as JSON always does with the C0 controls.
func EscapeJSON(text []byte) []byte {
	var out []byte
	var last rune
	done := 0
	for i := 0; i < len(text); {
		if text[i] < del {
			last = rune(text[i])
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if r <= 0x9f || Hides(last, r) {
			out = append(out, text[done:i]...)
			out = appendEscaped(out, r)
			done = i + size
		} else {
			last = r
		}
		i += size
	}
	if done == 0 {
		return text
	}
	return append(out, text[done:]...)
}

// appendEscaped appends a character as JSON escapes it: as a surrogate pair if it does not fit into one.
func appendEscaped(out []byte, r rune) []byte {
	if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
		return fmt.Appendf(out, `\u%04x\u%04x`, high, low)
	}
	return fmt.Appendf(out, `\u%04x`, r)
}
