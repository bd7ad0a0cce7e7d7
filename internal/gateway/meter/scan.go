package meter

import "strings"

// Bounds of the kept parts of an answer.
const (
	maxDepth = 4   // names of values further in are not known
	maxText  = 128 // bytes of a name or a value; longer ones are not known either
)

// scanner reads JSON of any length, piece by piece, and keeps only its place in it. It reports
// strings, numbers and words (true) in objects at most maxDepth deep, and the end of every
// document. It skips text between documents, as in a stream of events, and tolerates errors: the
// sender is trusted.
type scanner struct {
	value func(path, text string) // names with dots between
	end   func()

	depth  int  // of open objects and arrays
	outer  bool // the outermost is an array: a list of documents
	levels [maxDepth]level

	quoted, escaped, bare bool // within a string; after a \; within a number or a word
	text                  []byte
	long                  bool // more text than is kept
}

// level is an open object or array.
type level struct {
	array bool
	named bool // its name was read, and the value comes next
	name  string
}

func (s *scanner) write(p []byte) {
	for _, c := range p {
		switch {
		case s.quoted:
			s.inString(c)
		case s.bare && isBare(c):
			s.keepByte(c)
		default:
			if s.bare {
				s.bare = false
				s.reportValue()
			}
			s.between(c)
		}
	}
}

func isBare(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c == '-' || c == '+' || c == '.' || c == 'E'
}

func (s *scanner) keepByte(c byte) {
	if len(s.text) < maxText {
		s.text = append(s.text, c)
	} else {
		s.long = true
	}
}

func (s *scanner) inString(c byte) {
	switch {
	case s.escaped:
		s.escaped, s.long = false, true // whatever it means, no relevant name contains it
	case c == '\\':
		s.escaped = true
	case c == '"':
		s.quoted = false
		s.string()
	default:
		s.keepByte(c)
	}
}

// innermost returns the innermost open object or array; nil if it is too deep, or none is open.
func (s *scanner) innermost() *level {
	if s.depth < 1 || s.depth > maxDepth {
		return nil
	}
	return &s.levels[s.depth-1]
}

func (s *scanner) between(c byte) {
	switch l := s.innermost(); {
	case c == '{', c == '[':
		s.open(c == '[')
	case s.depth == 0: // outside of a document
	case c == '}', c == ']':
		s.close()
	case l == nil:
		s.quoted, s.text = c == '"', s.text[:0]
	case c == '"':
		s.quoted, s.text, s.long = true, s.text[:0], false
	case c == ':':
		l.named = true
	case c == ',':
		l.named = false
	case isBare(c):
		s.bare, s.long = true, false
		s.text = append(s.text[:0], c)
	}
}

func (s *scanner) open(array bool) {
	if s.depth == 0 && array && !s.outer {
		s.outer = true // its elements are the documents
		return
	}
	s.depth++
	if l := s.innermost(); l != nil {
		*l = level{array: array}
	}
}

func (s *scanner) close() {
	if s.depth--; s.depth == 0 {
		s.end()
	}
}

// restart begins the next document here. It reports whether none was open.
func (s *scanner) restart() bool {
	whole := s.depth == 0 && !s.quoted
	s.depth, s.outer, s.quoted, s.escaped, s.bare = 0, false, false, false, false
	return whole
}

// string is called at the end of a string: a name or a value.
func (s *scanner) string() {
	l := s.innermost()
	switch {
	case l == nil:
	case l.array || l.named:
		s.reportValue()
	case s.long:
		l.name = ""
	default:
		l.name = string(s.text)
	}
}

// reportValue reports a value.
func (s *scanner) reportValue() {
	if s.long || s.innermost() == nil {
		return
	}
	var path strings.Builder
	for i, l := range s.levels[:s.depth] {
		if l.array || l.name == "" {
			return
		}
		if i > 0 {
			path.WriteByte('.')
		}
		path.WriteString(l.name)
	}
	s.value(path.String(), string(s.text))
}
