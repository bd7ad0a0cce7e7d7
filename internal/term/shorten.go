package term

// Shorten cuts text to at most so many characters.
func Shorten(s string, width int) string {
	n := 0
	for i := range s {
		if n++; n > width {
			return s[:i] + "…"
		}
	}
	return s
}
