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

// shorten shortens a word of a file to one short line, for a note.
func shorten(word string) string {
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
	list := make([]string, len(keys))
	for i, key := range keys {
		list[i] = shorten(key)
	}
	return "not known, and without effect: " + listed(list, ",")
}

// listed joins words with a mark and blanks, and counts those beyond maxTold.
func listed(words []string, mark string) string {
	text := strings.Join(words[:min(len(words), maxTold)], mark+" ")
	if more := len(words) - maxTold; more > 0 {
		text += fmt.Sprintf("%s and %d more", mark, more)
	}
	return text
}
