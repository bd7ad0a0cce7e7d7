package inject

import (
	"slices"
	"strings"
)

// How deep escapes nest: a string in a string, a URL in a URL.
const (
	maxSlashes = 8 // backslashes before one character
	maxPercent = 3 // %252525XX
	maxAmp     = 2 // &amp;amp;#XX;
	maxDigits  = 8 // of a number in HTML, zeros in front included
)

// named are characters with names in HTML that credentials are made of.
var named = []struct {
	name string
	char byte
}{
	{"amp", '&'},
	{"lt", '<'},
	{"gt", '>'},
	{"quot", '"'},
	{"apos", '\''},
	{"plus", '+'},
	{"sol", '/'},
	{"equals", '='},
	{"num", '#'},
	{"percnt", '%'},
	{"dollar", '$'},
	{"excl", '!'},
	{"commat", '@'},
	{"colon", ':'},
	{"period", '.'},
	{"lowbar", '_'},
}

// reading is a character, and where the text goes on behind it.
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

func (r *readings) add(c byte, end int) {
	if r.n < len(r.list) {
		r.list[r.n] = reading{c, end}
		r.n++
	}
}

// read reads what begins at i, which must be within b.
func (r *readings) read(b []byte, i int) {
	r.n, r.more = 0, false
	r.add(b[i], i+1)
	switch b[i] {
	case '%':
		r.percent(b, i+1)
	case '\\':
		r.slashes(b, i)
	case '&':
		r.entity(b, i+1)
	case '=':
		r.digits(b, i+1, 2, 16) // quoted-printable
	case '+':
		r.add(' ', i+1)
	}
}

// percent reads XX, 25XX, and so on.
func (r *readings) percent(b []byte, i int) {
	for range maxPercent + 1 {
		v, n := number(b, i, 2, 16)
		switch {
		case n == 2:
			r.add(byte(v), i+2)
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
			r.add('\\', j)
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
		r.digits(b, j+1, 8, 16)
	case c == 'x':
		r.digits(b, j+1, 2, 16)
	case c >= '0' && c <= '7':
		r.digits(b, j, 3, 8)
	case !alphanumeric(c) && c != '\\':
		r.add(c, j+1)
	}
}

// codePoint reads XXXX or {X…}.
func (r *readings) codePoint(b []byte, i int) {
	if i < len(b) && b[i] != '{' {
		r.digits(b, i, 4, 16)
		return
	}
	if i < len(b) {
		i++
	}
	v, n := number(b, i, 6, 16)
	switch end := i + n; {
	case end == len(b):
		r.more = true
	case n > 0 && b[end] == '}' && v < 128:
		r.add(byte(v), end+1)
	}
}

// digits reads a number of fixed length.
func (r *readings) digits(b []byte, i, size, base int) {
	v, n := number(b, i, size, base)
	switch {
	case n == size && v < 128:
		r.add(byte(v), i+n)
	case n < size && i+n == len(b):
		r.more = true
	}
}

// entity reads #DDD; or #DDD or #xXX; or a name, possibly behind amp; again.
func (r *readings) entity(b []byte, i int) {
	for range maxAmp + 1 {
		r.oneEntity(b, i)
		next, ok := follows(b, i, "amp;")
		if !ok {
			r.more = r.more || next
			return
		}
		i += len("amp;")
	}
}

func (r *readings) oneEntity(b []byte, i int) {
	if i == len(b) {
		r.more = true
		return
	}
	if b[i] != '#' {
		for _, e := range named {
			if e.name[0] != b[i] { // that byte differs for most
				continue
			}
			part, ok := entityName(b, i, e.name)
			if ok {
				r.add(e.char, i+len(e.name)+1)
			}
			r.more = r.more || part
		}
		return
	}
	i++
	base := 10
	if i < len(b) && (b[i] == 'x' || b[i] == 'X') {
		base, i = 16, i+1
	}
	r.entityNumber(b, i, base)
}

// entityNumber reads digits. Browsers do without the ';', so the next character may be a digit that
// does not belong to the number.
func (r *readings) entityNumber(b []byte, i, base int) {
	v, n := 0, 0
	for ; n < maxDigits && i+n < len(b) && digit(b[i+n]) < base; n++ {
		if v = v*base + digit(b[i+n]); v > 0 && v < 128 {
			r.add(byte(v), i+n+1)
		}
	}
	end := i + n
	switch {
	case end == len(b):
		r.more = true
	case n > 0 && v < 128 && b[end] == ';':
		r.add(byte(v), end+1)
	}
}

// follows reports whether a word follows, or might after more bytes.
func follows(b []byte, i int, word string) (part, ok bool) {
	n := min(len(b)-i, len(word))
	if string(b[i:i+n]) != word[:n] {
		return false, false
	}
	return n < len(word), n == len(word)
}

// entityName is follows for a name with its ';'.
func entityName(b []byte, i int, name string) (part, ok bool) {
	if part, ok = follows(b, i, name); !ok {
		return part, false
	}
	return follows(b, i+len(name), ";")
}

// number reads up to size digits. It returns how many it read.
func number(b []byte, i, size, base int) (v, n int) {
	for n < size && i+n < len(b) {
		d := digit(b[i+n])
		if d >= base {
			break
		}
		v, n = v*base+d, n+1
	}
	return v, n
}

func digit(c byte) int {
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

// softBreak finds the end of a line break of quoted-printable, which does not belong to the text.
func softBreak(b []byte, i int) (end int, more bool) {
	if b[i] != '=' {
		return i, false
	}
	if i+1 == len(b) {
		return i, true
	}
	end, _, more = breakChar(b, i+1)
	if end == i+1 || b[i+1] == '\\' {
		return i, more
	}
	if b[i+1] == '\r' && end < len(b) && b[end] == '\n' {
		end++
	}
	return end, end == len(b)
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
	hex := hexOf(c)
	for _, h := range hex {
		add("=" + h)
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
		add(run + string([]byte{'0' + c>>6, '0' + c>>3&7, '0' + c&7}))
		if !alphanumeric(c) {
			add(run + string(c))
		}
	}
	for k := range maxAmp + 1 {
		amp := "&" + strings.Repeat("amp;", k)
		for zeros := range min(size, maxDigits-2) {
			z := strings.Repeat("0", zeros)
			for _, end := range []string{";", ""} {
				add(amp + "#" + z + decimal(c) + end)
				for _, h := range hex {
					add(amp + "#x" + z + strings.TrimLeft(h, "0") + end)
					add(amp + "#X" + z + strings.TrimLeft(h, "0") + end)
				}
			}
		}
		for _, e := range named {
			if e.char == c {
				add(amp + e.name + ";")
			}
		}
	}
	if c == ' ' {
		add("+")
	}
	return list
}

// hexOf returns the ways to write an ASCII byte in hexadecimal: its first digit is not a letter.
func hexOf(c byte) []string {
	high := '0' + c>>4
	return slices.Compact([]string{
		string([]byte{high, "0123456789abcdef"[c&15]}),
		string([]byte{high, "0123456789ABCDEF"[c&15]}),
	})
}

func decimal(c byte) string {
	s := string([]byte{'0' + c/100, '0' + c/10%10, '0' + c%10})
	return strings.TrimLeft(s, "0")
}
