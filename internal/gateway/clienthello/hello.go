// Package clienthello reads the first message of a TLS client, without answering: the name of its
// server. It is stricter than servers are, because it must not read another name than they do. A message
// that a server might take for a ClientHello, and that cannot be read with certainty, is an error.
package clienthello

import (
	"errors"
	"fmt"
	"io"
	"slices"
)

// MaxSize bounds a ClientHello, in bytes. A ClientHello with post-quantum keys has about two thousand.
const MaxSize = 32 << 10

// Info is the content of a ClientHello.
type Info struct {
	ServerName string   // empty if it names none
	Protocols  []string // offered by ALPN
}

// Errors of Read.
var (
	ErrNotTLS     = errors.New("not a TLS ClientHello")
	ErrUnreadable = errors.New("the TLS ClientHello cannot be read with certainty")
)

func unreadable(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnreadable, fmt.Sprintf(format, args...))
}

// Read reads a ClientHello. Its first bytes were read already, the rest comes from r. It returns,
// with or without an error, all bytes that were read, to be passed on.
func Read(begun []byte, r io.Reader) (Info, []byte, error) {
	s := &source{r: r, said: slices.Clone(begun)}
	info, err := s.readHello()
	return info, s.said, err
}

func (s *source) readHello() (Info, error) {
	for n := 1; ; n++ { // no byte more than needed to recognise other protocols
		err := s.readUntil(n)
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return Info{}, err
		}
		switch l := Begins(s.said); {
		case l == No, l == Maybe && err != nil:
			return Info{}, ErrNotTLS
		case l == Yes:
			return s.parseRecords()
		}
	}
}

func (s *source) parseRecords() (Info, error) {
	m, err := s.message()
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return Info{}, unreadable("it breaks off")
	}
	if err != nil {
		return Info{}, err
	}
	return parse(m)
}

// source is the client's bytes.
type source struct {
	r    io.Reader
	said []byte
	at   int // how much of it has been understood
}

// readUntil reads on until n bytes are left that were not parsed yet.
func (s *source) readUntil(n int) error {
	for len(s.said)-s.at < n {
		if s.at+n > MaxSize {
			return unreadable("it does not end")
		}
		s.said = slices.Grow(s.said, 2048)
		m, err := s.r.Read(s.said[len(s.said):min(cap(s.said), MaxSize)])
		s.said = s.said[:len(s.said)+m]
		switch {
		case len(s.said)-s.at >= n:
		case err == io.EOF:
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		}
	}
	return nil
}

func (s *source) takeBytes(n int) ([]byte, error) {
	if err := s.readUntil(n); err != nil {
		return nil, err
	}
	s.at += n
	return s.said[s.at-n : s.at], nil
}

// message joins the records that a ClientHello is spread over, and returns it without its head.
func (s *source) message() ([]byte, error) {
	var m []byte
	for {
		r, err := s.record()
		if err != nil {
			return nil, err
		}
		m = append(m, r...)
		if len(m) < 4 {
			continue
		}
		if m[0] != clientHello {
			return nil, unreadable("it is a message of type %d", m[0])
		}
		switch size := 4 + int(m[1])<<16 + int(m[2])<<8 + int(m[3]); {
		case size > MaxSize:
			return nil, unreadable("it has %d bytes", size)
		case len(m) > size:
			return nil, unreadable("something comes before the server has answered")
		case len(m) == size:
			return m[4:], nil
		}
	}
}

// record returns the content of the next record.
func (s *source) record() ([]byte, error) {
	h, err := s.takeBytes(5)
	if err != nil {
		return nil, err
	}
	kind, major, minor, size := h[0], h[1], h[2], int(h[3])<<8|int(h[4])
	switch {
	case kind >= 0x80:
		return nil, unreadable("it is one of SSL 2")
	case kind != handshake:
		return nil, unreadable("a record of type %d comes before its end", kind)
	case major != 3 || minor > 4:
		return nil, unreadable("a record has version %d.%d", major, minor)
	case size == 0 || size > maxRecord:
		return nil, unreadable("a record has %d bytes", size)
	}
	return s.takeBytes(size)
}
