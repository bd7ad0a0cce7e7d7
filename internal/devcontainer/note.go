package devcontainer

import (
	"fmt"
	"strconv"
	"strings"
)

// Bounds of the notes of one kind, and of a quoted word of a file, in characters.
const (
	maxTold = 20
	maxWord = 200
)

// told shortens a word of a file to one short line, for a note.
func told(word string) string {
	if oneLine(word) != nil {
		word = strings.Trim(strconv.Quote(word), `"`)
	}
	n := 0
	for i := range word {
		if n++; n > maxWord {
			return word[:i] + "…"
		}
	}
	return word
}

// notKnown reports unknown keys.
func notKnown(keys []string) string {
	var list []string
	for _, key := range keys[:min(len(keys), maxTold)] {
		list = append(list, told(key))
	}
	text := "not known, and without effect: " + strings.Join(list, ", ")
	if more := len(keys) - maxTold; more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text
}

// forwarded suggests the flags for ports.
func forwarded(flags []string) string {
	text := strings.Join(flags[:min(len(flags), maxTold)], " ")
	if more := len(flags) - maxTold; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
