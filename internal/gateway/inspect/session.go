package inspect

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/held"
	"github.com/bothy-dev/bothy/internal/gateway/relay"
)

// session is a connection of the inside over HTTP/1: one request after the
// other, each answered before the next is looked at.
type session struct {
	conn   *conn
	log    *log.Logger // of what goes wrong here
	served net.Conn    // conn, or TLS over it
	r      *bufio.Reader
	ctx    context.Context // ends with the connection
	cancel context.CancelCauseFunc
	clock  alarm       // closes the connection if a head does not come
	watch  alarm       // looks whether the client is still there
	armed  bool        // watch was started for this request
	asked  atomic.Bool // there was a request
	mute   atomic.Bool // there was none when the time for it was over
	err    error       // in the place of a request
	seen   chan struct{}
	over   chan struct{} // has watch end that waits for a client that has said all
	last   atomic.Bool   // it has: there is no other request
	header http.Header   // of the answer, for every request anew
}

// handler answers a request. The context ends when nobody waits for it.
type handler func(context.Context, *conn, http.ResponseWriter, *http.Request)

// Times a client has for what is not worth an answer.
const (
	watchAfter = 10 * time.Millisecond // from when on it is noticed that a client hangs up while it waits
	lingerTime = 500 * time.Millisecond
	maxSkip    = 256 << 10 // of a body nobody wanted is read, so that another request can follow
)

func newSession(ctx context.Context, c *conn, served net.Conn, b *held.Budget) *session {
	c.strict = newStrict(served, c, b)
	s := &session{conn: c, served: served, r: bufio.NewReader(c.strict), seen: make(chan struct{}, 1), over: make(chan struct{}, 1), header: http.Header{}}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	s.clock.f = s.late
	s.clock.set(headTime)
	s.watch.f = s.look
	return s
}

// late ends a connection on which no head comes. If there never was one, that is no end
// to be taken for an answer.
func (s *session) late() {
	if s.asked.Load() {
		_ = s.served.Close()
		return
	}
	s.mute.Store(true)
	s.conn.Reset()
}

// serve answers requests until the connection ends. The error is for one on which there
// are none, because it does not speak HTTP.
func (s *session) serve(handle handler) (err error) {
	defer func() {
		if p := recover(); p != nil && !aborts(p) { // as net/http does: it is the end of one connection
			s.log.Printf("http: panic serving %s: %v\n%s", s.conn.host, p, debug.Stack())
			s.conn.Reset()
		}
		s.cancel(nil)
		s.clock.end()
		s.watch.end()
		s.conn.strict.hold.Release()
		_ = s.served.Close()
	}()
	for s.next(handle) {
		s.clock.set(idleTime)
	}
	return s.unheard()
}

// unheard is why a connection was cut off on which no request came.
func (s *session) unheard() error {
	switch {
	case s.mute.Load():
		return noHead()
	case errors.Is(s.err, ErrNoHTTP):
		s.conn.Reset()
		return ErrNoHTTP
	}
	return nil
}

// aborts tells whether what a handler panicked with means that it has no more to
// say, and that its client is to see that.
func aborts(p any) bool {
	err, ok := p.(error)
	return ok && errors.Is(err, http.ErrAbortHandler)
}

// end cuts the connection.
func (s *session) end() {
	s.cancel(nil)
	s.clock.end()
	s.conn.Reset()
}

// next answers one request. It is false if that was the last.
func (s *session) next(handle handler) bool {
	if s.r.Buffered() == 0 && s.conn.strict.begun() != nil {
		return false
	}
	s.clock.set(headTime)
	if _, s.err = s.r.Peek(1); s.err != nil {
		return false
	}
	r := s.request()
	if !s.clock.stop() {
		return false
	}
	s.asked.Store(true)
	body := &clientBody{ReadCloser: r.Body, s: s}
	if r.Body == http.NoBody {
		body.ended.Store(true)
		s.await()
	} else {
		r.Body = body
	}
	w := &reply{s: s, r: r, body: body, header: s.header, giveBack: func() {}}
	defer func() { w.giveBack() }()
	clear(s.header)
	handle(s.ctx, s.conn, w, r)
	body.leave()
	s.unwatch()
	return w.finish() && s.skip(body, w)
}

// request reads a request. What strict lets through and net/http does not is one
// of method refused, too.
func (s *session) request() *http.Request {
	r, err := http.ReadRequest(s.r)
	if err == nil {
		return r
	}
	s.conn.strict.note(errors.New("the request cannot be read: " + err.Error()))
	return &http.Request{
		Method: refused, URL: &url.URL{Path: "/"}, RequestURI: "/", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Close: true,
	}
}

// await begins to look for a client that hangs up.
func (s *session) await() {
	s.armed = true
	s.watch.set(watchAfter)
}

// errHungUp is the cause of a request whose client does not wait for the answer.
var errHungUp = errors.New("the client hung up before it had the answer")

// look waits for the client to say something, which it does not have to, or to
// hang up: then nobody waits for the answer. A client that only says that it has said
// all does.
func (s *session) look() {
	_, err := s.r.Peek(1)
	switch {
	case err == nil || isTimeout(err):
	case err == io.EOF && !s.brokenOff():
		s.last.Store(true)
		if relay.AwaitCut(s.conn.Conn, s.over) {
			s.cancel(errHungUp)
		}
	default:
		s.cancel(errHungUp)
	}
	s.seen <- struct{}{}
}

// brokenOff tells an end that TLS knows nothing of, which package tls takes for one of its own:
// whoever has said all says so.
func (s *session) brokenOff() bool {
	_, secure := s.served.(*tls.Conn)
	return secure && s.conn.ended.Load()
}

func isTimeout(err error) bool {
	t, ok := errors.AsType[net.Error](err)
	return ok && t.Timeout()
}

// past is a deadline that is over.
var past = time.Unix(1, 0)

// unwatch ends look. From here on only the caller reads.
func (s *session) unwatch() {
	armed := s.armed
	s.armed = false
	if !armed || s.watch.stop() {
		return
	}
	_ = s.served.SetReadDeadline(past)
	s.over <- struct{}{}
	<-s.seen
	select {
	case <-s.over: // nobody waited for it
	default:
	}
	_ = s.served.SetReadDeadline(time.Time{})
}

// skip reads what is left of a request's body that nobody began with, if another
// request may follow. Else it hangs up.
func (s *session) skip(b *clientBody, w *reply) bool {
	if b.ended.Load() && !w.last {
		return true
	}
	if !b.begun.Load() && !w.last {
		s.clock.set(headTime)
		_, err := io.CopyN(io.Discard, b.ReadCloser, maxSkip)
		return err == io.EOF && s.clock.stop()
	}
	if !b.ended.Load() || s.conn.strict.failed() != nil {
		s.linger()
	}
	return false
}

// linger ends an answer and gives the client the time to read it: to hang up
// while it still speaks would be a reset.
func (s *session) linger() {
	_ = closeWrite(s.served)
	_ = s.served.SetReadDeadline(time.Now().Add(lingerTime))
	_, _ = io.Copy(io.Discard, s.served)
}

// closeWrite tells who listens that there is no more, if one direction of the
// connection can be closed alone.
func closeWrite(c net.Conn) error {
	if w, ok := c.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

// clientBody is the body of a request, as it comes.
type clientBody struct {
	io.ReadCloser
	s *session

	mu    sync.Mutex  // is held while it is read
	left  bool        // nobody may read it any more
	begun atomic.Bool // somebody read it
	ended atomic.Bool // all of it was read
}

var errLeft = errors.New("the request was answered already")

func (b *clientBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.left:
		return 0, errLeft
	case b.ended.Load():
		return 0, io.EOF
	}
	b.begun.Store(true)
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.ended.Store(true)
		b.s.await()
	}
	return n, err
}

// Close ends a Read that waits for the client. There cannot be another request
// then.
func (b *clientBody) Close() error {
	if b.mu.TryLock() { // nobody waits
		b.left = true
		b.mu.Unlock()
		return nil
	}
	return b.s.served.SetReadDeadline(past)
}

// leave ends all that the one who answers has to do with it.
func (b *clientBody) leave() {
	_ = b.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = true
}
