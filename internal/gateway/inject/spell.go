package inject

import (
	"slices"
	"strings"
)

// How deep escapes nest: a string in a string, a URL in a URL.
const (
	maxSlashes = 8 // backslashes before one character
	maxPercent = 3 // %252525XX
)

// reading is a character, and where the text goes on after it.
type reading struct {
	char byte
	end  int
}

// readings are all the characters that a text may encode at one place: some encoding takes the text
// for each of them. There are never more than room for.
type readings struct {
	list [16]reading
	n    int
	more bool // later bytes could give it another meaning
}

func (r *readings) addReading(c byte, end int) {
	if r.n < len(r.list) {
		r.list[r.n] = reading{c, end}
		r.n++
	}
}

// readFrom adds the readings that begin at i, which must be within b.
func (r *readings) readFrom(b []byte, i int) {
	r.n, r.more = 0, false
	r.addReading(b[i], i+1)
	switch b[i] {
	case '%':
		r.percent(b, i+1)
	case '\\':
		r.slashes(b, i)
	case '+':
		r.addReading(' ', i+1)
	}
}

// percent reads XX, 25XX, and so on.
func (r *readings) percent(b []byte, i int) {
	for range maxPercent + 1 {
		v, n := number(b, i, 2)
		switch {
		case n == 2:
			r.addReading(byte(v), i+2)
		case i+n == len(b):
			r.more = true
			return
		}
		if n < 2 || v != '%' {
			return
		}
		i += 2
	}
}

// slashes reads backslashes. One of them may be literal, and all of them may belong to the next
// character.
func (r *readings) slashes(b []byte, i int) {
	j := i
	for j < len(b) && j-i < maxSlashes && b[j] == '\\' {
		j++
		if n := j - i; n == 2 || n == 4 || n == 8 {
			r.addReading('\\', j)
		}
	}
	if j == len(b) {
		r.more = true
		return
	}
	switch c := b[j]; {
	case c == 'u':
		r.codePoint(b, j+1)
	case c == 'U':
		r.hexDigits(b, j+1, 8)
	case c == 'x':
		r.hexDigits(b, j+1, 2)
	case !alphanumeric(c) && c != '\\':
		r.addReading(c, j+1)
	}
}

// codePoint reads XXXX or {X…}.
func (r *readings) codePoint(b []byte, i int) {
	if i < len(b) && b[i] != '{' {
		r.hexDigits(b, i, 4)
		return
	}
	if i < len(b) {
		i++
	}
	v, n := number(b, i, 6)
	switch end := i + n; {
	case end == len(b):
		r.more = true
	case n > 0 && b[end] == '}' && v < 128:
		r.addReading(byte(v), end+1)
	}
}

// hexDigits reads a number of fixed length.
func (r *readings) hexDigits(b []byte, i, size int) {
	v, n := number(b, i, size)
	switch {
	case n == size && v < 128:
		r.addReading(byte(v), i+n)
	case n < size && i+n == len(b):
		r.more = true
	}
}

// number reads up to size hexadecimal digits. It returns how many it read.
func number(b []byte, i, size int) (v, n int) {
	for n < size && i+n < len(b) {
		d := digitValue(b[i+n])
		if d >= 16 {
			break
		}
		v, n = v*16+d, n+1
	}
	return v, n
}

func digitValue(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return 99
}

// maxIndented is how far a line may be indented.
const maxIndented = 32

// lineBreak finds the end of a line break, also one written as \n, and of the next line's
// indentation. Without a line break the end is i.
func lineBreak(b []byte, i int) (end int, more bool) {
	end, c, more := breakChar(b, i)
	if end == i {
		return i, more
	}
	if c == 'r' {
		second, c, unsure := breakChar(b, end)
		more = more || unsure
		if c == 'n' {
			end = second
		}
	}
	for n := 0; n < maxIndented && end < len(b) && (b[end] == ' ' || b[end] == '\t'); n++ {
		end++
	}
	return end, more || end == len(b)
}

// breakChar reads one character of a line break, and returns it.
func breakChar(b []byte, i int) (end int, c byte, more bool) {
	j := i
	for j < len(b) && j-i < maxSlashes && b[j] == '\\' {
		j++
	}
	switch {
	case j == len(b):
		return i, 0, true
	case j == i && b[j] == '\n', j > i && b[j] == 'n':
		return j + 1, 'n', false
	case j == i && b[j] == '\r', j > i && b[j] == 'r':
		return j + 1, 'r', false
	}
	return i, 0, false
}

// spellbook caches the spellings of characters by their length.
type spellbook map[[2]byte][]string

func (k spellbook) spellings(c byte, size int) []string {
	key := [2]byte{c, byte(size)}
	if k[key] == nil {
		k[key] = spellings(c, size)
	}
	return k[key]
}

// spellings returns the ways to write a character, cut off after some bytes: all beginnings that
// readings understands.
func spellings(c byte, size int) []string {
	var list []string
	known := map[string]bool{}
	add := func(s string) {
		if s = s[:min(len(s), size)]; !known[s] {
			known[s] = true
			list = append(list, s)
		}
	}
	add(string(c))
	hex := hexForms(c)
	for _, h := range hex {
		for k := range maxPercent + 1 {
			add("%" + strings.Repeat("25", k) + h)
		}
		for k := 1; k <= maxSlashes; k++ {
			run := strings.Repeat(`\`, k)
			add(run + "u00" + h)
			add(run + "U000000" + h)
			add(run + "x" + h)
			for zeros := range min(size, 5) {
				add(run + "u{" + strings.Repeat("0", zeros) + strings.TrimLeft(h, "0") + "}")
			}
		}
	}
	for k := 1; k <= maxSlashes; k++ {
		run := strings.Repeat(`\`, k)
		if !alphanumeric(c) {
			add(run + string(c))
		}
	}
	if c == ' ' {
		add("+")
	}
	return list
}

// hexForms returns the ways to write an ASCII byte in hexadecimal: its first digit is not a letter.
func hexForms(c byte) []string {
	high := '0' + c>>4
	return slices.Compact([]string{
		string([]byte{high, "0123456789abcdef"[c&15]}),
		string([]byte{high, "0123456789ABCDEF"[c&15]}),
	})
}
