package run

import "strings"

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
