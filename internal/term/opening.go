package term

import "strings"

// Opening is the beginning of a text, for a row.
func Opening(text string) string {
	const most = 80
	line, more, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if r := []rune(line); len(r) > most {
		return string(r[:most]) + " ..."
	}
	if more != "" {
		line += " ..."
	}
	return line
}
