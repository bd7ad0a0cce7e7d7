package term

import "unicode/utf8"

const (
	bel = 0x07
	can = 0x18
	sub = 0x1a
	esc = 0x1b
	del = 0x7f

	// maxParams bounds the stored part of a control sequence. A longer one is swallowed like any
	// other but has no effect here.
	maxParams = 256
)

// decoder turns bytes into characters, however the bytes are split. An invalid UTF-8 byte becomes
// U+FFFD. The zero value works.
type decoder struct {
	held [utf8.UTFMax]byte
	n    int
}

// addByte takes one byte and calls each with the characters that it completes.
func (d *decoder) addByte(b byte, each func(rune)) {
	if d.n == 0 && b < utf8.RuneSelf {
		each(rune(b))
		return
	}
	d.held[d.n] = b
	d.n++
	for d.n > 0 && utf8.FullRune(d.held[:d.n]) {
		r, size := utf8.DecodeRune(d.held[:d.n])
		d.n = copy(d.held[:], d.held[size:d.n])
		each(r)
	}
}

type place uint8

const (
	inText place = iota
	inEscape
	inCSI
	inString // OSC, DCS, APC, PM, SOS and screen's title
)

type token uint8

const (
	tokenNone    token = iota // swallowed: part of a sequence
	tokenText                 // a character to show
	tokenControl              // a control character outside of a sequence
	tokenEscape               // the last character of ESC … final
	tokenCSI                  // the last character of CSI … final
)

// lexer distinguishes text, control characters and escape sequences like a terminal (ECMA-48 and the
// states of the DEC VT500). The zero value works.
type lexer struct {
	place place
	size  int // characters since the sequence began

	// The parts of the sequence that ended with tokenEscape or tokenCSI.
	params []byte
	inter  byte
	final  byte

	skip bool // the sequence is not well formed: swallow, do not report
}

func (l *lexer) reset() { l.place, l.size = inText, 0 }

func (l *lexer) beginSequence(p place) token {
	l.place, l.size = p, 0
	l.params, l.inter, l.final, l.skip = l.params[:0], 0, 0, false
	return tokenNone
}

// nextRune takes one character and classifies it.
func (l *lexer) nextRune(r rune) token {
	if l.place != inText {
		l.size++
	}
	switch {
	case r == esc:
		return l.beginSequence(inEscape)
	case r >= 0x80 && r <= 0x9f:
		return l.handleC1(r)
	case l.place == inText:
		return isAlone(r)
	case r == can || r == sub:
		l.reset()
		return tokenNone
	}
	switch l.place {
	case inEscape:
		return l.escape(r)
	case inCSI:
		return l.handleCSI(r)
	default:
		return l.skipString(r)
	}
}

func isAlone(r rune) token {
	if r < 0x20 || r == del {
		return tokenControl
	}
	return tokenText
}

// handleC1 handles the one-character forms of ESC [, ESC ] and so on.
func (l *lexer) handleC1(r rune) token {
	switch r {
	case 0x9b:
		return l.beginSequence(inCSI)
	case 0x90, 0x98, 0x9d, 0x9e, 0x9f:
		return l.beginSequence(inString)
	case 0x9c:
		if l.place == inString {
			l.reset()
			return tokenNone
		}
	}
	l.reset()
	return tokenControl
}

func (l *lexer) escape(r rune) token {
	if l.inter == 0 {
		switch r {
		case '[':
			return l.beginSequence(inCSI)
		case ']', 'P', 'X', '^', '_', 'k':
			return l.beginSequence(inString)
		}
	}
	if r >= 0x30 && r < 0x40 { // a final here, a parameter in csi
		return l.finish(r, tokenEscape)
	}
	return l.common(r, tokenEscape)
}

func (l *lexer) handleCSI(r rune) token {
	if r < 0x30 || r >= 0x40 {
		return l.common(r, tokenCSI)
	}
	if l.inter != 0 || len(l.params) == maxParams {
		l.skip = true
		return tokenNone
	}
	l.params = append(l.params, byte(r))
	return tokenNone
}

// common handles the part that both kinds of short sequences share.
func (l *lexer) common(r rune, done token) token {
	switch {
	case r < 0x20: // terminals act on it and continue the sequence
		return tokenControl
	case r < 0x30:
		l.skip = l.skip || l.inter != 0
		l.inter = byte(r)
		return tokenNone
	case r < del:
		return l.finish(r, done)
	case r == del:
		return tokenNone
	}
	l.reset()
	return tokenText
}

func (l *lexer) finish(r rune, done token) token {
	l.reset()
	l.final = byte(r)
	if l.skip {
		return tokenNone
	}
	return done
}

// skipString swallows a string. ESC \ needs no special case: ESC ends the string, and the rest is a sequence
// without effect.
func (l *lexer) skipString(r rune) token {
	if r == bel {
		l.reset()
	}
	return tokenNone
}
