package inject

// needle is a text that is searched for.
type needle struct {
	loan *loan
	text string
	mask string // the replacement, where it has the same length
}

// kind is a way a text is encoded as a whole.
type kind uint8

const (
	plain kind = iota // character by character, each possibly escaped
	sixes             // base64 of any text around it
	hexa
	wide // UTF-16, either order of bytes
)

// form is an encoded needle: a sequence of classes of characters.
type form struct {
	*needle
	kind    kind
	symbols []class
}

// class is a set of ASCII characters.
type class [2]uint64

func (c *class) addByte(b byte)      { c[b>>6&1] |= 1 << (b & 63) }
func (c *class) hasByte(b byte) bool { return b < 128 && c[b>>6]>>(b&63)&1 != 0 }

func (c *class) listBytes() []byte {
	var list []byte
	for b := range byte(128) {
		if c.hasByte(b) {
			list = append(list, b)
		}
	}
	return list
}

// allForms returns all forms of a needle.
func (n *needle) allForms() []*form {
	list := []*form{{n, plain, literal(n.text)}, {n, hexa, hexDigits(n.text)}, {n, wide, spread(n.text)}}
	for before := range 3 {
		list = append(list, &form{n, sixes, sextets(n.text, before)})
	}
	return list
}

func literal(text string) []class {
	list := make([]class, len(text))
	for i := range len(text) {
		list[i].addByte(text[i])
	}
	return list
}

func hexDigits(text string) []class {
	list := make([]class, 2*len(text))
	for i := range len(text) {
		for j, digit := range []byte{text[i] >> 4, text[i] & 15} {
			list[2*i+j].addByte("0123456789abcdef"[digit])
			list[2*i+j].addByte("0123456789ABCDEF"[digit])
		}
	}
	return list
}

// spread puts a zero after each character but the last: only between the characters do both
// byte orders have them.
func spread(text string) []class {
	list := make([]class, 2*len(text)-1)
	for i := range list {
		if i%2 == 0 {
			list[i].addByte(text[i/2])
		} else {
			list[i].addByte(0)
		}
	}
	return list
}

const sextetDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// addSextet adds the digits of a number in both alphabets.
func (c *class) addSextet(v int) {
	switch v {
	case 62:
		c.addByte('+')
		c.addByte('-')
	case 63:
		c.addByte('/')
		c.addByte('_')
	default:
		c.addByte(sextetDigits[v])
	}
}

// sextets returns the base64 digits of a text with so many bytes before it. Digits shared with
// neighbours can be any that have the text's bits. A digit with only two bits of the text is left
// out: in ASCII those two are nearly always the same.
func sextets(text string, before int) []class {
	bit := func(i int) (value, known int) {
		i -= 8 * before
		if i < 0 || i >= 8*len(text) {
			return 0, 0
		}
		return int(text[i/8]>>(7-i%8)) & 1, 1
	}
	var list []class
	first := 8 * before / 6
	if before == 2 {
		first++
	}
	for d := first; 6*d < 8*(before+len(text)); d++ {
		value, known := 0, 0
		for i := range 6 {
			v, k := bit(6*d + i)
			value, known = value<<1|v, known<<1|k
		}
		var c class
		for v := range 64 {
			if v&known == value {
				c.addSextet(v)
			}
		}
		list = append(list, c)
	}
	return list
}

// coverMatch overwrites a match, of which raw is the original. The text around it can still be decoded
// as before.
func (f *form) coverMatch(dst, raw []byte) {
	if f.kind == plain && len(raw) == len(f.text) && len(f.text) == len(f.mask) {
		copy(dst, f.mask)
		return
	}
	for i := 0; i < len(raw); i++ {
		switch f.kind {
		case plain:
			dst[i] = '*'
		case wide:
			if raw[i] != 0 {
				dst[i] = '*'
			}
		default:
			if end, _ := lineBreak(raw, i); end > i {
				i = end - 1
				continue
			}
			dst[i] = map[kind]byte{sixes: 'A', hexa: '0'}[f.kind]
		}
	}
}
