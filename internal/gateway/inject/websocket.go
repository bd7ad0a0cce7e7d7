package inject

import (
	"bytes"
	"encoding/binary"
	"io"

	"github.com/bothy-dev/bothy/spec"
)

// WebSocket inspects the frames of a WebSocket to a server: it masks what the client reads, message
// by message, and scans the bytes written. Frames that it cannot parse, compressed ones among them,
// are an error in either direction.
func (s *Set) WebSocket(server io.ReadWriteCloser) io.ReadWriteCloser {
	if s == nil {
		return server
	}
	w := &webSocket{ReadWriteCloser: server}
	why := func(l *loan) string { return "it belongs into requests to " + l.hosts }
	w.out = sender{frames: frames{masked: true}, text: s.scanner("WebSocket message", why), note: s.scanner("WebSocket message", why)}
	if s.values != nil {
		w.in = &receiver{r: server, message: stream{f: s.values}, f: s.values}
	}
	return w
}

type webSocket struct {
	io.ReadWriteCloser
	in  *receiver // nil: no values to mask
	out sender
}

func (w *webSocket) Read(p []byte) (int, error) {
	if w.in == nil {
		return w.ReadWriteCloser.Read(p)
	}
	return w.in.Read(p)
}

func (w *webSocket) Write(p []byte) (int, error) {
	if err := w.out.judgePayload(p); err != nil {
		return 0, err
	}
	return w.ReadWriteCloser.Write(p)
}

// Opcodes.
const (
	opContinue = 0
	opText     = 1
	opBinary   = 2
	opClose    = 8
	opPong     = 10
)

// maxControl bounds the payload of a control frame.
const maxControl = 125

// frames reads the frames of one direction.
type frames struct {
	masked bool // from client to server
	open   bool // a message has begun and not ended
	head   [14]byte
	have   int // bytes of head
	left   uint64
	pos    int // in the payload, for the mask
}

// header takes bytes for a header. done reports that it is complete.
func (f *frames) header(b []byte) (rest []byte, done bool, err error) {
	for f.have < f.headerSize() {
		if len(b) == 0 {
			return nil, false, nil
		}
		f.head[f.have] = b[0]
		f.have, b = f.have+1, b[1:]
	}
	if err := f.checkHeader(); err != nil {
		return nil, false, err
	}
	return b, true, nil
}

// headerSize returns the length of the header, as far as it is known.
func (f *frames) headerSize() int {
	if f.have < 2 {
		return 2
	}
	n := 2
	switch f.head[1] & 127 {
	case 126:
		n = 4
	case 127:
		n = 10
	}
	if f.head[1]&128 != 0 {
		n += 4
	}
	return n
}

func (f *frames) opcode() byte  { return f.head[0] & 15 }
func (f *frames) isFinal() bool { return f.head[0]&128 != 0 }
func (f *frames) control() bool { return f.opcode() >= opClose }

// checkHeader judges a complete header and begins the payload.
func (f *frames) checkHeader() error {
	f.pos = 0
	switch n := f.head[1] & 127; n {
	case 126:
		f.left = uint64(binary.BigEndian.Uint16(f.head[2:]))
	case 127:
		f.left = binary.BigEndian.Uint64(f.head[2:])
	default:
		f.left = uint64(n)
	}
	op := f.opcode()
	why := ""
	switch {
	case f.head[0]&0x70 != 0:
		why = "uses an extension"
	case (f.head[1]&128 != 0) != f.masked:
		why = "is masked in the wrong direction"
	case f.left>>63 != 0:
		why = "has a length that is none"
	case op > opPong || op > opBinary && op < opClose:
		why = "has an unknown opcode"
	case f.control() && (!f.isFinal() || f.left > maxControl):
		why = "is a control frame in pieces"
	case !f.control() && (op == opContinue) != f.open:
		why = "does not continue the frame before it"
	}
	if why != "" {
		return spec.Errorf(spec.ErrDenied, "a WebSocket frame %s, so it cannot be looked into", why)
	}
	if !f.control() {
		f.open = !f.isFinal()
	}
	return nil
}

// payload takes bytes for the payload, unmasked into a buffer. ended reports that the frame is
// complete.
func (f *frames) payload(buf, b []byte) (part, rest []byte, ended bool) {
	n := len(b)
	if uint64(n) > f.left {
		n = int(f.left) //nolint:gosec // less than the length of a slice
	}
	part, rest = b[:n], b[n:]
	if f.masked {
		key := f.head[f.headerSize()-4 : f.headerSize()]
		buf = append(buf[:0], part...)
		for i := range buf {
			buf[i] ^= key[(f.pos+i)&3]
		}
		part = buf
	}
	f.pos = (f.pos + n) & 3
	f.left -= uint64(n)
	if f.left > 0 {
		return part, rest, false
	}
	f.have = 0
	return part, rest, true
}

// sender judges the client's frames.
type sender struct {
	frames
	inside     bool     // the header is complete, the payload is not
	text, note *Scanner // of messages, and of control frames
	buf        []byte
	err        error
}

func (s *sender) judgePayload(b []byte) error {
	for s.err == nil && (len(b) > 0 || s.inside && s.left == 0) {
		if !s.inside {
			b, s.inside, s.err = s.header(b)
			continue
		}
		scan := s.text
		if s.control() {
			scan = s.note
		}
		var ended bool
		s.buf, b, ended = s.payload(s.buf, b)
		if s.err = scan.Feed(s.buf); ended {
			s.inside = false
			if s.isFinal() {
				scan.resetStream()
			}
		}
	}
	return s.err
}

// receiver masks the server's frames. A message may come in several frames, with control frames between
// them, and a value in it may be cut anywhere. So the message's bytes are masked separately, and put
// back after their headers.
type receiver struct {
	frames
	r       io.Reader
	f       *finder
	message stream
	inside  bool
	buf     []byte // for reads
	ctl     []byte // payload of a control frame
	queue   []segment
	text    []byte // of messages, masked, not yet put back
	ready   []byte
	given   int // of ready
	err     error
}

// segment is a header, or a whole control frame, and the number of bytes of a message that follow it.
type segment struct {
	head []byte
	left uint64
}

// maxQueue bounds frames that wait for the end of a possible value.
const maxQueue = 256

func (w *receiver) Read(p []byte) (int, error) {
	for w.given == len(w.ready) {
		if w.err != nil || len(p) == 0 {
			return 0, w.err
		}
		if w.buf == nil {
			w.buf = make([]byte, smallRead)
		}
		n, err := w.r.Read(w.buf)
		w.ready, w.given = w.ready[:0], 0
		if bad := w.takeFrames(w.buf[:n]); bad != nil {
			err = bad
		} else {
			w.putBack()
		}
		w.err = err
	}
	n := copy(p, w.ready[w.given:])
	w.given += n
	return n, nil
}

// takeFrames reads frames.
func (w *receiver) takeFrames(b []byte) (err error) {
	for len(b) > 0 || w.inside && w.left == 0 {
		if !w.inside {
			if b, w.inside, err = w.header(b); err != nil {
				return err
			}
			if w.inside && !w.control() {
				w.queue = append(w.queue, segment{bytes.Clone(w.head[:w.have]), w.left})
			}
			if len(w.queue) > maxQueue {
				return spec.Errorf(spec.ErrDenied, "a WebSocket message comes in too many pieces to be looked into")
			}
			continue
		}
		part, rest, ended := w.payload(nil, b)
		b = rest
		if w.control() {
			w.controlFrame(part, ended)
		} else {
			w.text = append(w.text, w.message.feedPiece(part, ended && w.isFinal())...)
		}
		if ended {
			w.inside = false
			w.putBack()
		}
	}
	return nil
}

// controlFrame collects a control frame, and masks it as a whole.
func (w *receiver) controlFrame(part []byte, ended bool) {
	w.ctl = append(w.ctl, part...)
	if ended {
		w.queue = append(w.queue, segment{head: append([]byte{w.head[0], w.head[1]}, w.f.maskText(string(w.ctl))...)})
		w.ctl = w.ctl[:0]
	}
}

// putBack makes frames ready as far as their payload has arrived.
func (w *receiver) putBack() {
	for len(w.queue) > 0 {
		s := &w.queue[0]
		w.ready = append(w.ready, s.head...)
		s.head = nil
		n := len(w.text)
		if uint64(n) > s.left {
			n = int(s.left) //nolint:gosec // less than the length of a slice
		}
		w.ready = append(w.ready, w.text[:n]...)
		w.text = w.text[:copy(w.text, w.text[n:])]
		if s.left -= uint64(n); s.left > 0 {
			return
		}
		w.queue = w.queue[1:]
	}
}
