package inspect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/held"
	"github.com/bothy-dev/bothy/internal/gateway/inspect/strict"
)

// frames is a connection over HTTP/2 between TLS and net/http's server. That server allocates the head
// of each request before a handler can refuse it, and queues heads of requests that the client has
// cancelled already. So frames gives the server one head at a time. It reads on when a handler has
// counted that head, or the server has answered it by itself.
type frames struct {
	net.Conn // TLS; net/http is not to see that, or it would leave this out
	owner    *conn
	hold     *held.Hold // of the connection
	long     *held.Hold // of a head that is not counted yet
	closed   <-chan struct{}
	in       frameCut
	last     uint32 // stream that the client opened
	opens    uint32 // stream whose head is being read; 0: none
	bodies   bool   // bytes for bodies were taken

	mu      sync.Mutex
	out     frameCut      // guarded by mu
	comes   bool          // a head is on its way to the server
	waits   uint32        // stream whose head the server has; 0: none
	counted chan struct{} // closed when that is counted
	leaving bool          // the server takes no more streams
	refused []uint32      // streams to be reset as refused
	running int           // handlers
	ends    map[uint32]*end
	fault   error // why the connection was ended here
	unread  int   // heads that the server refused by itself
	gone    bool  // it has ended

	trailers *held.Hold // of requests whose handlers run
}

// end is that of a stream. Net/http keeps a request until the last of its answer is sent, which
// may be long after its handler has returned: the client decides when it takes that.
type end struct {
	release func() // gives back the memory of the request; nil: its handler runs
	over    bool   // nothing more is sent
}

// Of RFC 9113.
const (
	prefaceSize     = 24
	frameHeadSize   = 9
	dataFrame       = 0
	headersFrame    = 1
	resetFrame      = 3
	goAwayFrame     = 7
	flagEndStream   = 1
	flagEndHeaders  = 4
	refusedStream   = 7
	enhanceYourCalm = 11
)

// Bytes that a connection over HTTP/2 takes.
const (
	holdHTTP2  = 32 << 10           // besides the bytes of every inspected connection
	holdLong   = 2 * strict.MaxHead // for a head that comes in several frames, until it is counted
	bodyWindow = 1 << 20            // for bodies that were not read yet
	frameSize  = 64 << 10
)

func newFrames(c net.Conn, to *conn, b *held.Budget) *frames {
	return &frames{Conn: c, owner: to, hold: to.hold, long: b.Hold(), trailers: b.Hold(), closed: to.done, in: frameCut{left: prefaceSize}}
}

// Read reads the client's bytes, at most to the end of a frame or of its head.
func (f *frames) Read(b []byte) (int, error) {
	if f.in.atStart() {
		f.awaitCount()
	}
	n, err := f.Conn.Read(b[:min(len(b), f.in.nextSize())])
	if f.in.feedBytes(b[:n]) {
		if err := f.begins(); err != nil {
			f.calmClient(err)
			return 0, err
		}
	}
	if f.in.atStart() && f.opens != 0 && f.in.flags&flagEndHeaders != 0 {
		f.gaveHead(f.opens)
		f.opens = 0
	}
	return n, err
}

// RemoteAddr is an address even if the client has gone: net/http asks for its text.
func (f *frames) RemoteAddr() net.Addr {
	if a := f.Conn.RemoteAddr(); a != nil {
		return a
	}
	return &net.TCPAddr{}
}

// begins looks at the head of a frame, and takes the memory that it will hold.
func (f *frames) begins() error {
	switch {
	case f.in.kind == resetFrame:
		f.mu.Lock()
		defer f.mu.Unlock()
		f.endStream(f.in.stream)
		return nil
	case f.in.kind == dataFrame && !f.bodies:
		f.bodies = true
		return f.hold.Take(bodyWindow)
	case f.in.kind != headersFrame:
		return nil
	case f.in.stream <= f.last:
		return f.trailers.Take(holdLong)
	}
	f.last, f.opens = f.in.stream, f.in.stream
	f.mu.Lock()
	f.comes = true
	f.mu.Unlock()
	if f.in.flags&flagEndHeaders == 0 {
		return f.long.Take(holdLong)
	}
	return nil
}

// calmClient ends the connection of a client that holds too much, and says why: ENHANCE_YOUR_CALM.
func (f *frames) calmClient(why error) {
	f.mu.Lock()
	f.fault = why
	whole := f.out.atStart()
	f.mu.Unlock()
	if !whole { // the server has not sent all of a frame
		return
	}
	bye := []byte{0, 0, 8, goAwayFrame, 0, 0, 0, 0, 0}
	bye = binary.BigEndian.AppendUint32(bye, f.last)
	bye = binary.BigEndian.AppendUint32(bye, enhanceYourCalm)
	_ = f.SetDeadline(time.Now().Add(lingerTime))
	if _, err := f.Conn.Write(bye); err == nil {
		_, _ = io.Copy(io.Discard, f.Conn) // hanging up while the client speaks would be a reset
	}
}

// ErrUnread is for a connection over HTTP/2 on which heads of requests were refused before
// anything else was looked at, and so without a record of their own.
var ErrUnread = errors.New("HTTP/2 does not allow their heads: malformed, too large, or too many at once")

// failed returns why the gateway ended the connection, or else how many heads the server refused.
func (f *frames) failed() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fault == nil && f.unread > 0 {
		return fmt.Errorf("%d requests were refused: %w", f.unread, ErrUnread)
	}
	return f.fault
}

// gaveHead notes that the server has the head of a request.
func (f *frames) gaveHead(stream uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.comes = false
	if !f.leaving {
		f.waits, f.counted = stream, make(chan struct{})
	}
}

// awaitCount waits until the last head is counted. That is soon: a request that has to wait for a
// handler waits for one whose client has cancelled it.
func (f *frames) awaitCount() {
	f.mu.Lock()
	counted := f.counted
	f.mu.Unlock()
	if counted == nil {
		return
	}
	select {
	case <-counted:
	case <-f.closed:
	}
}

// handles notes that a handler has counted the head that the server was given last. It returns
// the stream.
func (f *frames) handles() uint32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running++
	stream := f.settle()
	if f.ends == nil {
		f.ends = map[uint32]*end{}
	}
	f.ends[stream] = &end{}
	return stream
}

// handled notes that the handler of a stream has returned. What the request holds is released when
// the last of its answer is sent.
func (f *frames) handled(stream uint32, release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running--; f.running == 0 {
		f.trailers.Reset()
	}
	e := f.ends[stream]
	if e == nil || e.over || f.gone {
		delete(f.ends, stream)
		release()
		return
	}
	e.release = release
}

// endStream notes that nothing more is sent on a stream.
func (f *frames) endStream(stream uint32) {
	e := f.ends[stream]
	switch {
	case e == nil:
	case e.release == nil:
		e.over = true
	default:
		delete(f.ends, stream)
		e.release()
	}
}

func (f *frames) settle() uint32 {
	stream := f.waits
	if f.counted != nil {
		close(f.counted)
	}
	f.waits, f.counted = 0, nil
	f.long.Reset()
	return stream
}

// refuse makes the reset of a stream say that the request was not processed, so that the client may ask
// again.
func (f *frames) refuse(stream uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused = append(f.refused, stream)
	// A stream that its client has reset gets no reset of ours, and stays in the list.
	f.refused = f.refused[max(0, len(f.refused)-2*maxStreams):]
}

// release gives back the memory of the connection, which has ended.
func (f *frames) release() {
	f.long.Release()
	f.trailers.Release()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gone = true
	for _, e := range f.ends {
		if e.release != nil {
			e.release()
		}
	}
	f.ends = nil
}

// Write sends the server's bytes.
func (f *frames) Write(b []byte) (int, error) {
	said, over := f.inspectSaid(b)
	n, err := f.Conn.Write(said)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, stream := range over {
		f.endStream(stream)
	}
	return n, err
}

// inspectSaid inspects the server's bytes. It returns them as they are sent, and the streams that they
// end.
func (f *frames) inspectSaid(b []byte) (said []byte, over []uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	said = b
	for rest := b; len(rest) > 0; {
		at := len(b) - len(rest)
		n := min(len(rest), f.out.nextSize())
		if f.out.feedBytes(rest[:n]) {
			f.hearHead()
		} else if f.out.kind == resetFrame && f.isRefused(f.out.stream) {
			if &said[0] == &b[0] {
				said = slices.Clone(b)
			}
			f.markReset(said[at : at+n])
		}
		if f.out.atStart() && f.out.endsStream() {
			over = append(over, f.out.stream)
		}
		rest = rest[n:]
	}
	return said, over
}

// hearHead looks at the head of a frame from the server.
func (f *frames) hearHead() {
	switch {
	case f.out.kind == goAwayFrame:
		f.leaving = true
	case f.out.stream == 0 || f.out.stream != f.waits:
		return
	}
	if f.settle() != 0 || f.comes { // no handler has it
		f.unread++
	}
	f.comes = false
}

func (f *frames) isRefused(stream uint32) bool { return slices.Contains(f.refused, stream) }

// markReset overwrites the reason in a part of a reset.
func (f *frames) markReset(part []byte) {
	for i := range part {
		part[i] = 0
		if f.out.left+len(part)-i == 1 { // the last of its bytes
			part[i] = refusedStream
			f.refused = slices.DeleteFunc(f.refused, func(s uint32) bool { return s == f.out.stream })
		}
	}
}

// frameCut finds frames in a stream of bytes that arrives in pieces.
type frameCut struct {
	head   [frameHeadSize]byte
	have   int // of head
	left   int // of the payload
	kind   byte
	flags  byte
	stream uint32
}

// atStart reports whether a frame comes next.
func (c *frameCut) atStart() bool { return c.have == 0 && c.left == 0 }

// nextSize is how many bytes may be fed: to the end of a head, or of a payload.
func (c *frameCut) nextSize() int {
	if c.left > 0 {
		return c.left
	}
	return frameHeadSize - c.have
}

// endsStream reports whether the frame is the last of its stream.
func (c *frameCut) endsStream() bool {
	return c.kind == resetFrame || (c.kind == dataFrame || c.kind == headersFrame) && c.flags&flagEndStream != 0
}

// feedBytes takes bytes. It reports whether they complete the head of a frame.
func (c *frameCut) feedBytes(b []byte) bool {
	if c.left > 0 {
		c.left -= len(b)
		return false
	}
	c.have += copy(c.head[c.have:], b)
	if c.have < frameHeadSize {
		return false
	}
	c.have = 0
	c.left = int(c.head[0])<<16 | int(c.head[1])<<8 | int(c.head[2])
	c.kind, c.flags = c.head[3], c.head[4]
	c.stream = binary.BigEndian.Uint32(c.head[5:]) &^ (1 << 31)
	return true
}
