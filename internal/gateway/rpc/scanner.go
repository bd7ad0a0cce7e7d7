package rpc

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner reads once through a JSON document, strictly by RFC 8259. It copies only text with
// escapes in it.
type scanner struct {
	in   []byte
	at   int
	keys [][]byte // of the open objects, one after the other
}

func (s *scanner) failAt(what string) error { return fmt.Errorf("%s, at byte %d", what, s.at) }

// peek returns the next byte; 0 at the end.
func (s *scanner) peek() byte {
	if s.at == len(s.in) {
		return 0
	}
	return s.in[s.at]
}

func (s *scanner) skipSpace() {
	for s.at < len(s.in) && (s.in[s.at] == ' ' || s.in[s.at] == '\n' || s.in[s.at] == '\r' || s.in[s.at] == '\t') {
		s.at++
	}
}

// takeByte reads a byte, if it is the next one.
func (s *scanner) takeByte(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.at++
	return true
}

// readValue reads a value.
func (s *scanner) readValue(depth int) error {
	switch s.peek() {
	case '{':
		return s.object(depth, func([]byte) error { return s.readValue(depth + 1) })
	case '[':
		return s.readList(depth, func() error { return s.readValue(depth + 1) })
	case '"':
		_, err := s.readText()
		return err
	case 't':
		return s.readWord("true")
	case 'f':
		return s.readWord("false")
	case 'n':
		return s.readWord("null")
	}
	return s.number()
}

func (s *scanner) readWord(w string) error {
	if !bytes.HasPrefix(s.in[s.at:], []byte(w)) {
		return s.failAt("a value is missing")
	}
	s.at += len(w)
	return nil
}

// readList reads a list; item reads each of its items.
func (s *scanner) readList(depth int, item func() error) error {
	if depth > maxDepth {
		return s.failAt(fmt.Sprintf("it is deeper than %d", maxDepth))
	}
	s.at++
	if s.skipSpace(); s.takeByte(']') {
		return nil
	}
	for {
		s.skipSpace()
		if err := item(); err != nil {
			return err
		}
		s.skipSpace()
		if s.takeByte(']') {
			return nil
		}
		if !s.takeByte(',') {
			return s.failAt("a list does not go on")
		}
	}
}

// object reads an object; member reads the value of each key. No key may occur twice.
func (s *scanner) object(depth int, member func(key []byte) error) error {
	if depth > maxDepth {
		return s.failAt(fmt.Sprintf("it is deeper than %d", maxDepth))
	}
	first := len(s.keys)
	defer func() { s.keys = s.keys[:first] }()
	s.at++
	if s.skipSpace(); s.takeByte('}') {
		return nil
	}
	for {
		s.skipSpace()
		key, err := s.readText()
		if err != nil {
			return err
		}
		if len(s.keys) == maxKeys {
			return fmt.Errorf("it has more than %d keys", maxKeys)
		}
		s.keys = append(s.keys, key)
		if s.skipSpace(); !s.takeByte(':') {
			return s.failAt("a key has no value")
		}
		s.skipSpace()
		if err := member(key); err != nil {
			return err
		}
		s.skipSpace()
		if s.takeByte('}') {
			return unique(s.keys[first:])
		}
		if !s.takeByte(',') {
			return s.failAt("an object does not go on")
		}
	}
}

// unique sorts keys, and reports an error if two are the same.
func unique(keys [][]byte) error {
	slices.SortFunc(keys, bytes.Compare)
	for i := 1; i < len(keys); i++ {
		if bytes.Equal(keys[i-1], keys[i]) {
			return fmt.Errorf("the key %s stands twice", quoteShort(string(keys[i])))
		}
	}
	return nil
}

// number reads a number.
func (s *scanner) number() error {
	s.takeByte('-')
	if !s.takeByte('0') && !s.digits() {
		return s.failAt("a value is missing")
	}
	if s.takeByte('.') && !s.digits() {
		return s.failAt("a number ends in a dot")
	}
	if s.takeByte('e') || s.takeByte('E') {
		if !s.takeByte('+') {
			s.takeByte('-')
		}
		if !s.digits() {
			return s.failAt("a number has no exponent")
		}
	}
	return nil
}

// digits reads digits. It returns false without one.
func (s *scanner) digits() bool {
	from := s.at
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.at++
	}
	return s.at > from
}

// readText returns the text between two quotes, without escapes.
func (s *scanner) readText() ([]byte, error) {
	if !s.takeByte('"') {
		return nil, s.failAt("a text is missing")
	}
	from := s.at
	for s.at < len(s.in) {
		switch c := s.in[s.at]; {
		case c == '"':
			s.at++
			return s.in[from : s.at-1 : s.at-1], nil
		case c == '\\':
			return s.escaped(bytes.Clone(s.in[from:s.at]))
		case c < ' ':
			return nil, s.failAt("a text has a control character")
		}
		s.at++
	}
	return nil, errors.New("a text does not end")
}

// escaped continues a text from its first escape on.
func (s *scanner) escaped(out []byte) ([]byte, error) {
	for s.at < len(s.in) {
		c := s.in[s.at]
		s.at++
		switch {
		case c == '"':
			return out, nil
		case c < ' ':
			return nil, s.failAt("a text has a control character")
		case c != '\\':
			out = append(out, c)
			continue
		}
		r, err := s.escape()
		if err != nil {
			return nil, err
		}
		out = utf8.AppendRune(out, r)
	}
	return nil, errors.New("a text does not end")
}

// escape reads the characters after a backslash. Half of a surrogate pair is not a character, and
// readers differ on it; after a NUL some see the end of the text.
func (s *scanner) escape() (rune, error) {
	c := s.peek()
	if i := bytes.IndexByte([]byte(`"\/bfnrt`), c); i >= 0 {
		s.at++
		return rune("\"\\/\b\f\n\r\t"[i]), nil
	}
	r, ok := s.readUnit()
	if utf16.IsSurrogate(r) && ok {
		var low rune
		if low, ok = 0, s.takeByte('\\'); ok {
			low, ok = s.readUnit()
		}
		r = utf16.DecodeRune(r, low)
		ok = ok && r != utf8.RuneError
	}
	if !ok || r == 0 {
		return 0, s.failAt("a text has an escape that stands for no character")
	}
	return r, nil
}

// readUnit reads uXXXX.
func (s *scanner) readUnit() (rune, bool) {
	if !s.takeByte('u') || len(s.in)-s.at < 4 {
		return 0, false
	}
	var r rune
	for range 4 {
		c := s.in[s.at]
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
		s.at++
	}
	return r, true
}

// quoteShort shows text that a program inside made up, at a bounded length.
func quoteShort(text string) string { return strconv.QuoteToASCII(text[:min(len(text), 60)]) }
