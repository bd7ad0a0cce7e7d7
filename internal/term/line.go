package term

import "strings"

// Line makes untrusted text fit one line: a row, a line of a log, or a line of a page. The result is
// safe to show, like that of [Sanitize], but a line end, with the blanks around it, becomes one space,
// and so does a tab. A \n does not help a reader of prose, and the text after it cannot pass for a line
// of ours. Use Sanitize for names, whose line ends must be visible.
func Line(text string) string {
	if isPlain(text) {
		return text
	}
	var b strings.Builder
	for piece := range pieces(text) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(piece)
	}
	return b.String()
}

// mostOpening is the maximum length of a text in a row, in characters.
const mostOpening = 80

// Opening returns the beginning of such a text: its first line that is not blank, up to the length that
// fits a row.
func Opening(text string) string {
	var first string
	n := 0
	for piece := range pieces(text) {
		if n++; n > 1 {
			break
		}
		first = strings.TrimSpace(piece)
	}
	if r := []rune(first); len(r) > mostOpening {
		return string(r[:mostOpening]) + " ..."
	}
	if n > 1 {
		first += " ..."
	}
	return first
}

// pieces yields the lines of a text that are not blank, each safe to show. The blanks at both ends of a
// text are layout, and stay.
func pieces(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for first := true; text != ""; first = false {
			end := strings.IndexAny(text, "\r\n")
			piece, rest, ended := text, "", end >= 0
			if ended {
				piece, rest = text[:end], text[end+1:]
			}
			text = rest
			piece = strings.ReplaceAll(piece, "\t", " ")
			if !first {
				piece = strings.TrimLeft(piece, " ")
			}
			if ended {
				piece = strings.TrimRight(piece, " ")
			}
			if piece = Sanitize(piece); strings.TrimSpace(piece) == "" && (ended || !first) {
				continue
			}
			if !yield(piece) {
				return
			}
		}
	}
}
