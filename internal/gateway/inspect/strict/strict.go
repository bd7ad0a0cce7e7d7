// Package strict lets through only requests of HTTP/1 that every server reads in the same way.
package strict

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/bothy-dev/bothy/internal/gateway/held"
	"github.com/bothy-dev/bothy/internal/gateway/inspect/http1"
	"github.com/bothy-dev/bothy/internal/policy"
)

// Conn lets through only requests of HTTP/1 that cannot be read in two ways. It has checked byte
// by byte what the server behind it parses: line ends, header fields, and where each body ends. So
// no request can hide in the body of another one.
//
// A request that does not pass is replaced by one of method refused, so that it is answered in its
// turn, and is the last one.
type Conn struct {
	net.Conn
	in    *bufio.Reader
	line  []byte // the line being read
	out   []byte // checked, not yet given out
	room  []byte // for out
	state state
	word  bool  // the first bytes of the connection may be a method
	asked bool  // its first line may be a request's
	left  int64 // of the body or chunk
	head  head
	hold  *held.Hold // of the head that is read
	held  int        // bytes of the head that are accounted for

	mu    sync.Mutex
	raw   bool
	fault error
}

// state is the part of the stream that comes next.
type state uint8

const (
	atHead     state = iota
	inHead           // after the request line
	inBody           // of a known length
	atChunk          // the size of a chunk
	inChunk          // its bytes
	behind           // the end of its line
	inTrailer        // after the last chunk
	afterFault       // no bytes are taken any more
)

// Refused is the method that replaces a request that did not pass. A request of that name from
// inside is an ordinary one.
const Refused = "REFUSED"

// New returns a filter of what a client sends. The heads of requests are held against a budget.
func New(c net.Conn, b *held.Budget) *Conn {
	return &Conn{Conn: c, in: bufio.NewReader(c), hold: b.Hold()}
}

// ErrNoHTTP is for connections on which every request would have to be judged.
var ErrNoHTTP = errors.New("its requests have to be judged, and it does not speak HTTP")

// MaxHead bounds the head of a request, in bytes.
const MaxHead = 128 << 10

// errEarly is for a client that did not wait for the switch.
var errEarly = errors.New("the client speaks another protocol before it was told that it may")

// Upgrade lets all bytes from here on through as they come. It fails if lines were taken for a
// request already: those bytes have changed.
func (s *Conn) Upgrade() error {
	if s.state != atHead {
		return errEarly
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.raw = true
	return nil
}

func (s *Conn) isRaw() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.raw
}

// Failed returns why a request did not pass.
func (s *Conn) Failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fault
}

// NoteFault records why a request that was delivered does not pass.
func (s *Conn) NoteFault(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = err
}

// Read returns the checked bytes. After a timeout it goes on where it was.
func (s *Conn) Read(b []byte) (int, error) {
	for len(s.out) == 0 {
		switch {
		case s.isRaw():
			if len(s.line) == 0 {
				return s.in.Read(b)
			}
			s.out, s.line = append(s.out, s.line...), s.line[:0]
			continue
		case s.state == afterFault:
			return 0, io.EOF
		case s.state == inBody || s.state == inChunk:
			return s.readBody(b)
		}
		if err := s.speaks(); err != nil {
			return 0, err
		}
		line, err := s.readLine()
		if err == nil {
			err = s.checkFirstLine(line)
		}
		if err != nil {
			return 0, err
		}
		s.stepLine(line)
	}
	n := copy(b, s.out)
	if s.out = s.out[n:]; len(s.out) == 0 && cap(s.room) > maxRoom {
		s.out, s.room = nil, nil
	}
	if len(s.out) == 0 && s.held > 0 {
		s.shrink()
	}
	return n, nil
}

// AwaitPart returns when some of the next part has arrived. Read returns no part of a head before the
// whole head has arrived.
func (s *Conn) AwaitPart() error {
	if len(s.out) > 0 || len(s.line) > 0 || s.state == inHead {
		return nil
	}
	_, err := s.in.Peek(1)
	return err
}

// speaks reads the first word of a connection, and fails as soon as it cannot be a method: clients
// of most other protocols send no line that could be answered, and wait. An empty line is found
// later, when it is judged.
func (s *Conn) speaks() error {
	for n := 1; !s.word; n++ {
		said, err := s.in.Peek(n)
		if len(said) < n {
			if err == io.EOF && n > 1 {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		switch c := said[n-1]; {
		case c == ' ' && n > 1, n == 1 && (c == '\r' || c == '\n'):
			s.word = true
		case n > maxMethod, !policy.IsToken(string(rune(c))):
			return ErrNoHTTP
		}
	}
	return nil
}

// checkFirstLine fails if the first line of a connection is of another protocol. An empty one is judged.
func (s *Conn) checkFirstLine(line []byte) error {
	if !s.asked && len(bytes.TrimRight(line, "\r\n")) > 0 && !MayBeRequest(line) {
		return ErrNoHTTP
	}
	s.asked = true
	return nil
}

// MayBeRequest reports whether a server might take a line for a request's, as the most generous
// server would read it: also one of HTTP/0.9 or of an unknown version.
func MayBeRequest(line []byte) bool {
	words := strings.Fields(strings.ToUpper(string(line)))
	switch {
	case len(words) < 2:
		return false
	case strings.HasPrefix(words[len(words)-1], "HTTP/") || len(words) > 2 && strings.HasPrefix(words[2], "HTTP/"):
		return true
	}
	return slices.Contains([]string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "TRACE"}, words[0]) &&
		(words[1][0] == '/' || words[1] == "*" || strings.Contains(words[1], "://"))
}

// maxMethod is longer than any known method.
const maxMethod = 64

// readBody passes on a known number of bytes.
func (s *Conn) readBody(b []byte) (int, error) {
	n, err := s.in.Read(b[:min(int64(len(b)), s.left)])
	if s.left -= int64(n); s.left == 0 {
		if s.state == inBody {
			s.state = atHead
		} else {
			s.state = behind
		}
	}
	return n, err
}

var errLong = errors.New("the head of the request is too long")

// readLine returns a line with its end. After an error it keeps the bytes of the line so far.
func (s *Conn) readLine() ([]byte, error) {
	for {
		part, err := s.in.ReadSlice('\n')
		s.line = append(s.line, part...)
		if err := s.growHold(); err != nil {
			s.failRequest(err)
			return nil, nil
		}
		if err == nil {
			line := s.line
			s.line = s.line[:0]
			return line, nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			if err == io.EOF && (len(s.line) > 0 || s.state != atHead) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
}

// holdStep is how many bytes are taken at a time for a head, and how many are free with its
// connection.
const holdStep = 8 << 10

// growHold takes the memory that a growing head needs: for the line, the lines before it, and the
// request that is made of them.
func (s *Conn) growHold() error {
	size := len(s.line) + s.head.size
	if size > MaxHead {
		return errLong
	}
	for size > s.held+holdStep {
		if err := s.hold.Take(3 * holdStep); err != nil {
			return err
		}
		s.held += holdStep
	}
	return nil
}

// shrink gives that memory back when the head is delivered.
func (s *Conn) shrink() {
	s.hold.Reset()
	s.held = 0
	if cap(s.line) > maxRoom && len(s.line) == 0 {
		s.line = nil
	}
}

// stepLine checks a line and finds out what follows it.
func (s *Conn) stepLine(line []byte) {
	if s.state == afterFault {
		return
	}
	text, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok || bytes.IndexByte(text, '\r') >= 0 {
		s.failRequest(errors.New("a line does not end in CR LF"))
		return
	}
	if err := s.judgeLine(text); err != nil {
		s.failRequest(err)
		return
	}
	s.gather(line)
	if s.state == inHead { // no part of a head is delivered before all of it is checked
		s.head.size += len(line)
		return
	}
	s.out, s.head.size = s.room, 0
}

// maxRoom is how much is kept for the next line or head.
const maxRoom = 4 << 10

// gather adds a line to the bytes to deliver. All bytes delivered before are gone by now.
func (s *Conn) gather(line []byte) {
	if s.head.size == 0 {
		s.room = s.room[:0]
	}
	s.room = append(s.room, line...)
}

// judgeLine checks the text of a line.
func (s *Conn) judgeLine(text []byte) error {
	switch s.state {
	case atHead:
		s.head = head{length: -1}
		s.state = inHead
		return s.head.request(text)
	case inHead:
		if len(text) > 0 {
			return s.head.checkField(text)
		}
		var err error
		s.state, s.left, err = s.head.endHead()
		return err
	case atChunk:
		n, err := chunkSize(string(text))
		if s.left, s.state = n, inChunk; n == 0 {
			s.state = inTrailer
		}
		return err
	case behind:
		s.state = atChunk
		if len(text) > 0 {
			return errors.New("a chunk is longer than it says")
		}
	case inTrailer:
		if len(text) == 0 {
			s.state = atHead
			return nil
		}
		s.head.trailer += len(text)
		if s.head.trailer > MaxHead {
			return errLong
		}
		return trailerField(text)
	}
	return nil
}

// failRequest replaces the request by one that carries the error.
func (s *Conn) failRequest(err error) {
	s.mu.Lock()
	s.fault = err
	s.mu.Unlock()
	begun := s.state != atHead && s.state != inHead // the server reads its body
	s.state, s.line, s.head = afterFault, nil, head{}
	if !begun {
		s.out = []byte(Refused + " / HTTP/1.1\r\nHost: refused\r\nConnection: close\r\n\r\n")
	}
}

// head is the known part of a request's head.
type head struct {
	size    int
	trailer int
	old     bool  // HTTP/1.0
	length  int64 // -1: none given
	chunked bool
	hosts   int
}

// request checks the first line.
func (h *head) request(line []byte) error {
	method, rest, _ := bytes.Cut(line, []byte(" "))
	target, version, ok := bytes.Cut(rest, []byte(" "))
	switch {
	case !ok || len(method) == 0 || len(target) == 0 || bytes.IndexByte(version, ' ') >= 0:
		return errors.New("the request line is not METHOD TARGET VERSION")
	case string(version) != "HTTP/1.1" && string(version) != "HTTP/1.0":
		return fmt.Errorf("%q is not HTTP/1", Clip(string(version)))
	case !policy.IsToken(string(method)):
		return fmt.Errorf("%q is not a method", Clip(string(method)))
	case target[0] != '/' && (string(target) != "*" || string(method) != "OPTIONS"):
		return errors.New("the target is not a path: this is not a proxy")
	}
	for _, c := range target {
		if c <= ' ' || c >= 0x7f || c == '#' {
			return errors.New("the target has a character that must be escaped")
		}
	}
	h.old = string(version) == "HTTP/1.0"
	return nil
}

// Fields that frame a request.
var (
	fieldHost     = []byte("host")
	fieldLength   = []byte("content-length")
	fieldEncoding = []byte("transfer-encoding")
)

// checkField checks a header field and notes those that frame the request.
func (h *head) checkField(line []byte) error {
	name, value, err := splitField(line)
	if err != nil {
		return err
	}
	switch {
	case bytes.EqualFold(name, fieldHost):
		if h.hosts++; h.hosts > 1 {
			return errors.New("there are two Host fields")
		}
	case bytes.EqualFold(name, fieldLength):
		if h.length >= 0 {
			return errors.New("there are two Content-Length fields")
		}
		if h.length, err = http1.ParseLength(string(value)); err != nil {
			return err
		}
	case bytes.EqualFold(name, fieldEncoding):
		if h.chunked || !strings.EqualFold(string(value), "chunked") {
			return errors.New("Transfer-Encoding is not chunked, once")
		}
		h.chunked = true
	}
	return nil
}

// endHead returns the part that follows the head.
func (h *head) endHead() (state, int64, error) {
	switch {
	case h.hosts == 0:
		return inHead, 0, errors.New("the Host field is missing")
	case h.chunked && h.length >= 0:
		return inHead, 0, errors.New("there are both Content-Length and Transfer-Encoding")
	case h.chunked && h.old:
		return inHead, 0, errors.New("HTTP/1.0 has no Transfer-Encoding")
	case h.chunked:
		return atChunk, 0, nil
	case h.length > 0:
		return inBody, h.length, nil
	}
	return atHead, 0, nil
}

func splitField(line []byte) (name, value []byte, err error) {
	name, value, ok := bytes.Cut(line, []byte(":"))
	if !ok || !policy.IsToken(string(name)) {
		return nil, nil, fmt.Errorf("%q is not a header field", Clip(string(line)))
	}
	value = bytes.Trim(value, " \t")
	for _, c := range value {
		if c < ' ' && c != '\t' || c == 0x7f {
			return nil, nil, fmt.Errorf("the value of %s has a control character", Clip(string(name)))
		}
	}
	return name, value, nil
}

func trailerField(line []byte) error {
	name, _, err := splitField(line)
	if err == nil && !MayTrail(string(name)) {
		err = fmt.Errorf("%s cannot be a trailer", name)
	}
	return err
}

// notTrailers would change afterwards how a request is read.
var notTrailers = []string{
	"authorization", "cache-control", "connection", "content-encoding", "content-length", "content-range",
	"content-type", "cookie", "expect", "host", "keep-alive", "max-forwards", "pragma", "proxy-authorization",
	"proxy-connection", "range", "te", "trailer", "transfer-encoding", "upgrade",
}

// chunkSize reads the line before a chunk. Extensions have no use, but servers
// differ in how they read them.
func chunkSize(text string) (int64, error) {
	if text == "" || len(text) > 15 {
		return 0, errors.New("the size of a chunk is none")
	}
	for i := range len(text) {
		if strings.IndexByte("0123456789abcdefABCDEF", text[i]) < 0 {
			return 0, errors.New("the size of a chunk is none, or has an extension")
		}
	}
	return strconv.ParseInt(text, 16, 64)
}

// Clip shortens text that a program inside made up.
func Clip(s string) string { return s[:min(len(s), 60)] }

// Release gives back the memory of a head whose connection has ended.
func (s *Conn) Release() { s.hold.Release() }

// MayTrail reports whether a field may follow a body.
func MayTrail(name string) bool { return !slices.Contains(notTrailers, strings.ToLower(name)) }
