package run

import (
	"fmt"
	"strings"
	"unicode"
)

// Head returns the beginning of a text, in whole characters: most bytes, and a mark that text was cut off.
func Head(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + " ..."
}

// Tail returns the end of a text, in whole characters: at most so many bytes.
func Tail(text string, most int) string {
	return strings.ToValidUTF8(text[max(0, len(text)-most):], "")
}

// Beginning returns as much of a text as fits, in whole characters, and a mark if text was cut off. It is empty
// if not even the mark fits.
func Beginning(text string, room int) string {
	const more = " [...]\n"
	if len(text) <= room {
		return text
	}
	if room <= len(more) {
		return ""
	}
	return strings.ToValidUTF8(text[:room-len(more)], "") + more
}

// Plain removes what an argument cannot hold or a reader cannot see: control characters except
// line ends and tabs, and invalid UTF-8.
func Plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || !unicode.IsControl(r) {
			return r
		}
		return -1
	}, strings.ToValidUTF8(text, ""))
}

// Few lists the first of many names.
func Few(names []string) string {
	const most = 5
	if n := len(names); n > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), n-most)
	}
	return strings.Join(names, ", ")
}
