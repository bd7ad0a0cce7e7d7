package inject

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/bothy-dev/bothy/spec"
)

// Refused reports a placeholder that must not go on. It is of class [spec.ErrDenied]. Its text does
// not contain the placeholder.
type Refused struct {
	Lease  string // its ID
	Secret string
	Where  string // the part that the placeholder was in
	Why    string // a clause
}

func (e *Refused) Error() string {
	return fmt.Sprintf("the placeholder of secret %s in the %s is refused: %s", e.Secret, e.Where, e.Why)
}

// Unwrap returns the class.
func (e *Refused) Unwrap() error { return spec.ErrDenied }

func (l *loan) refuse(where, why string) *Refused {
	return &Refused{Lease: l.ID, Secret: l.Secret, Where: where, Why: why}
}

// Scanner looks for placeholders in a stream in which they are not exchanged. Placeholders are not
// secret, so it holds nothing back: it refuses the piece that completes one.
type Scanner struct {
	f     *finder
	where string
	why   func(*loan) string
	fine  func(*loan) bool // loans whose placeholder may pass; nil: none
	tail  []byte           // the possible beginning of one
	err   error
}

// Scanner begins a stream that is passed on unchanged.
func (s *Set) Scanner() *Scanner {
	return s.scanner("stream", func(l *loan) string { return "it is only for inspected requests to " + l.hosts })
}

func (s *Set) scanner(where string, why func(*loan) string) *Scanner {
	if s == nil {
		return &Scanner{}
	}
	return &Scanner{f: s.placeholders, where: where, why: why}
}

// Feed takes the next piece. After an error, a *[Refused], neither the piece nor any later one may be
// passed on.
func (s *Scanner) Feed(b []byte) error {
	if s.err != nil || s.f == nil {
		return s.err
	}
	if len(s.tail) > 0 {
		s.tail = append(s.tail, b...)
		b = s.tail
	}
	var found *loan
	keep := s.f.scanText(b, false, func(m *form, _, _ int) {
		if s.fine == nil || !s.fine(m.loan) {
			found = m.loan
		}
	})
	if found != nil {
		s.err = found.refuse(s.where, s.why(found))
		return s.err
	}
	if rest := b[keep:]; len(s.tail) > 0 {
		s.tail = slices.Delete(s.tail, 0, keep)
	} else {
		s.tail = bytes.Clone(rest)
	}
	return nil
}

// resetStream begins another stream.
func (s *Scanner) resetStream() { s.tail = s.tail[:0] }

// body is a request's body that is scanned while it is sent.
type body struct {
	io.ReadCloser
	scan    *Scanner
	trailer func() error // judges the trailers after the body
	err     error
}

func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		if b.err = b.scan.Feed(p[:n]); b.err != nil {
			clear(p[:n])
			return 0, b.err
		}
	}
	if err == io.EOF {
		if b.err = b.trailer(); b.err != nil {
			return 0, b.err
		}
	}
	b.err = err
	return n, err
}
