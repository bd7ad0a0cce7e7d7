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

func (s *scanner) fail(what string) error { return fmt.Errorf("%s, at byte %d", what, s.at) }

// peek returns the next byte; 0 at the end.
func (s *scanner) peek() byte {
	if s.at == len(s.in) {
		return 0
	}
	return s.in[s.at]
}

func (s *scanner) space() {
	for s.at < len(s.in) && (s.in[s.at] == ' ' || s.in[s.at] == '\n' || s.in[s.at] == '\r' || s.in[s.at] == '\t') {
		s.at++
	}
}

// take reads a byte, if it is the next one.
func (s *scanner) take(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.at++
	return true
}

// value reads a value.
func (s *scanner) value(depth int) error {
	switch s.peek() {
	case '{':
		return s.object(depth, func([]byte) error { return s.value(depth + 1) })
	case '[':
		return s.list(depth, func() error { return s.value(depth + 1) })
	case '"':
		_, err := s.text()
		return err
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	}
	return s.number()
}

func (s *scanner) word(w string) error {
	if !bytes.HasPrefix(s.in[s.at:], []byte(w)) {
		return s.fail("there is no value")
	}
	s.at += len(w)
	return nil
}

// list reads a list; item reads each of its items.
func (s *scanner) list(depth int, item func() error) error {
	if depth > maxDepth {
		return s.fail(fmt.Sprintf("it is deeper than %d", maxDepth))
	}
	s.at++
	if s.space(); s.take(']') {
		return nil
	}
	for {
		s.space()
		if err := item(); err != nil {
			return err
		}
		s.space()
		if s.take(']') {
			return nil
		}
		if !s.take(',') {
			return s.fail("a list does not go on")
		}
	}
}

// object reads an object; member reads the value of each key. No key may occur twice.
func (s *scanner) object(depth int, member func(key []byte) error) error {
	if depth > maxDepth {
		return s.fail(fmt.Sprintf("it is deeper than %d", maxDepth))
	}
	first := len(s.keys)
	defer func() { s.keys = s.keys[:first] }()
	s.at++
	if s.space(); s.take('}') {
		return nil
	}
	for {
		s.space()
		key, err := s.text()
		if err != nil {
			return err
		}
		if len(s.keys) == maxKeys {
			return fmt.Errorf("it has more than %d keys", maxKeys)
		}
		s.keys = append(s.keys, key)
		if s.space(); !s.take(':') {
			return s.fail("a key has no value")
		}
		s.space()
		if err := member(key); err != nil {
			return err
		}
		s.space()
		if s.take('}') {
			return unique(s.keys[first:])
		}
		if !s.take(',') {
			return s.fail("an object does not go on")
		}
	}
}

// unique sorts keys, and reports an error if two are the same.
func unique(keys [][]byte) error {
	slices.SortFunc(keys, bytes.Compare)
	for i := 1; i < len(keys); i++ {
		if bytes.Equal(keys[i-1], keys[i]) {
			return fmt.Errorf("the key %s stands twice", quote(string(keys[i])))
		}
	}
	return nil
}

// number reads a number.
func (s *scanner) number() error {
	s.take('-')
	if !s.take('0') && !s.digits() {
		return s.fail("there is no value")
	}
	if s.take('.') && !s.digits() {
		return s.fail("a number ends in a dot")
	}
	if s.take('e') || s.take('E') {
		if !s.take('+') {
			s.take('-')
		}
		if !s.digits() {
			return s.fail("a number has no exponent")
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

// text returns the text between two quotes, without escapes.
func (s *scanner) text() ([]byte, error) {
	if !s.take('"') {
		return nil, s.fail("there is no text")
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
			return nil, s.fail("a text has a control character")
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
			return nil, s.fail("a text has a control character")
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
	r, ok := s.unit()
	if utf16.IsSurrogate(r) && ok {
		var low rune
		if low, ok = 0, s.take('\\'); ok {
			low, ok = s.unit()
		}
		r = utf16.DecodeRune(r, low)
		ok = ok && r != utf8.RuneError
	}
	if !ok || r == 0 {
		return 0, s.fail("a text has an escape that stands for no character")
	}
	return r, nil
}

// unit reads uXXXX.
func (s *scanner) unit() (rune, bool) {
	if !s.take('u') || len(s.in)-s.at < 4 {
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

// quote shows text that a program inside made up, at a bounded length.
func quote(text string) string { return strconv.QuoteToASCII(text[:min(len(text), 60)]) }
