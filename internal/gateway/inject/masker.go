package inject

import (
	"bytes"
	"io"
)

// stream masks a text that arrives in pieces. It holds back only a possible beginning of a match.
type stream struct {
	f    *finder
	raw  []byte // as it came, from the first byte that is still needed
	out  []byte // the same, masked; nil: no value was found
	told int    // bytes of both that were passed on already
	keep int    // where the bytes needed next time begin
}

// roomForPiece returns space for the next piece.
func (s *stream) roomForPiece(size int) []byte {
	s.raw = s.raw[:copy(s.raw, s.raw[s.keep:])]
	if s.out != nil {
		s.out = s.out[:copy(s.out, s.out[s.keep:])]
		if bytes.Equal(s.out, s.raw) {
			s.out = nil
		}
	}
	s.keep = 0
	n := len(s.raw)
	if cap(s.raw)-n < size {
		s.raw = append(make([]byte, 0, max(n+size, 2*n)), s.raw...)
	}
	return s.raw[n : n+size]
}

// takeArrived takes the bytes that are now in the room, and returns those that may be passed on. The
// result is valid until the next piece.
func (s *stream) takeArrived(size int, final bool) []byte {
	n := len(s.raw)
	s.raw = s.raw[:n+size]
	if s.out != nil {
		s.out = append(s.out, s.raw[n:]...)
	}
	s.keep = s.f.scanText(s.raw, final, func(m *form, start, end int) {
		if s.out == nil {
			s.out = bytes.Clone(s.raw)
		}
		m.coverMatch(s.out[start:end], s.raw[start:end])
	})
	end := s.keep
	if end == len(s.raw)-1 && !s.f.brief {
		end = len(s.raw)
	}
	list := s.raw
	if s.out != nil {
		list = s.out
	}
	pass := list[min(s.told, end):end]
	s.told = max(s.told, end) - s.keep
	return pass
}

// feedPiece takes a piece that is stored elsewhere.
func (s *stream) feedPiece(b []byte, final bool) []byte {
	copy(s.roomForPiece(len(b)), b)
	return s.takeArrived(len(b), final)
}

// Sizes of reads. Most answers are small. A large one pays for its room once.
const (
	smallRead = 4 << 10
	largeRead = 32 << 10
)

// masker is a stream over a reader.
type masker struct {
	stream
	r    io.Reader
	size int
	rest []byte
	err  error
}

// Masker returns r masked. It holds back only bytes that it cannot decide about.
func (s *Set) Masker(r io.Reader) io.Reader {
	if s == nil || s.values == nil {
		return r
	}
	return &masker{stream: stream{f: s.values}, r: r, size: smallRead}
}

func (m *masker) Read(p []byte) (int, error) {
	for len(m.rest) == 0 {
		if m.err != nil || len(p) == 0 {
			return 0, m.err
		}
		room := m.roomForPiece(m.size)
		n, err := m.r.Read(room)
		m.err = err
		m.rest = m.takeArrived(n, err == io.EOF) // of a cut answer, the bytes held back are not passed on
		if n == m.size {
			m.size = largeRead
		}
	}
	n := copy(p, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}
