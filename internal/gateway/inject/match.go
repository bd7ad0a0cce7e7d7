package inject

import (
	"slices"
	"strings"
)

// special marks bytes that may begin an escape or a line break.
var special = [256]bool{'%': true, '\\': true, '\n': true, '\r': true, '+': true}

// matchFrom compares the form with the text from start on. It returns the end of the longest match, or
// -1. more reports that later bytes could make one.
func (f *form) matchFrom(b []byte, start int) (end int, more bool) {
	i := start
	for n := range f.symbols {
		if i == len(b) {
			return -1, true
		}
		c := b[i]
		if special[c] {
			return f.spelled(b, i, n)
		}
		if !f.symbols[n].hasByte(c) {
			return -1, false
		}
		i++
	}
	return i, false
}

// spelled goes on from a symbol that may be escaped, or after a line break. It follows all
// possible ends of the text read so far at once.
func (f *form) spelled(b []byte, i, n int) (end int, more bool) {
	at := append(make([]int, 0, 32), i)
	next := make([]int, 0, 32)
	for ; n < len(f.symbols) && len(at) > 0; n++ {
		next = next[:0]
		for _, i := range at {
			more = f.matchSymbol(b, i, n, &next) || more
			if n == 0 || !f.isWrapped() || i == len(b) {
				continue
			}
			j, unsure := lineBreak(b, i)
			more = more || unsure
			if j > i {
				more = f.matchSymbol(b, j, n, &next) || more
			}
		}
		at, next = next, at
	}
	if len(at) == 0 {
		return -1, more
	}
	return slices.Max(at), more
}

// isWrapped reports whether a form is often broken into lines.
func (f *form) isWrapped() bool { return f.kind == sixes || f.kind == hexa }

// matchSymbol appends the ends of a symbol that begins at i.
func (f *form) matchSymbol(b []byte, i, n int, ends *[]int) (more bool) {
	if i == len(b) {
		return true
	}
	var r readings
	r.readFrom(b, i)
	for _, o := range r.list[:r.n] {
		if f.symbols[n].hasByte(o.char) && (o.end == i+1 && o.char == b[i] || f.escapes(o.char)) && !slices.Contains(*ends, o.end) {
			*ends = append(*ends, o.end)
		}
	}
	return r.more && f.kind != wide
}

// escapes reports whether a character may be escaped. In encoded text only a character that is
// neither letter nor digit ever is.
func (f *form) escapes(c byte) bool {
	return f.kind == plain || f.kind == sixes && !alphanumeric(c)
}

// collectGrams collects the first bytes that matches of the form can have.
func (f *form) collectGrams(known spellbook, yield func([gram]byte)) {
	var walk func(n int, head string)
	seen := map[string]bool{}
	walk = func(n int, head string) {
		if len(head) >= gram {
			yield([gram]byte([]byte(head[:gram])))
			return
		}
		breaks := f.breaks(n, gram-len(head))
		for _, c := range f.symbols[n].listBytes() {
			spelled := []string{string(c)}
			if f.escapes(c) {
				spelled = known.spellings(c, gram-len(head))
			}
			for _, s := range spelled {
				for _, br := range breaks {
					next := head + br + s
					if next = next[:min(len(next), gram)]; !seen[string(rune(n))+next] {
						seen[string(rune(n))+next] = true
						walk(n+1, next)
					}
				}
			}
		}
	}
	walk(0, "")
}

// breaks returns the line breaks that may precede a symbol, or their beginnings.
func (f *form) breaks(n, size int) []string {
	list := []string{""}
	if n == 0 || !f.isWrapped() {
		return list
	}
	ends := []string{"\n", "\r\n", "\r"}
	for n := 1; n <= size; n++ {
		run := strings.Repeat(`\`, n)
		ends = append(ends, run+"n", run+"r")
	}
	for _, end := range ends {
		list = append(list, indented(end, size)...)
	}
	return list
}

// indented returns a break with all indentations of a line, up to a size.
func indented(end string, size int) []string {
	list := []string{end}
	for i := 0; i < len(list); i++ {
		if len(list[i]) < size {
			list = append(list, list[i]+" ", list[i]+"\t")
		}
	}
	return list
}
