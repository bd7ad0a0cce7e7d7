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
	"github.com/bothy-dev/bothy/internal/gateway/inspect/http1"
	"github.com/bothy-dev/bothy/internal/gateway/inspect/strict"
	"github.com/bothy-dev/bothy/internal/gateway/relay"
)

// session is a connection of the inside over HTTP/1. Each request is answered before the next one
// is looked at.
type session struct {
	conn   *conn
	log    *log.Logger // for errors of this connection
	served net.Conn    // conn, or TLS over it
	r      *bufio.Reader
	ctx    context.Context // ends with the connection
	cancel context.CancelCauseFunc
	clock  *time.Timer // closes the connection if a head does not come
	watch  *time.Timer // watches whether the client is still connected
	armed  bool        // watch was started for this request
	asked  atomic.Bool // a request has come
	mute   atomic.Bool // none had come when the time for it was over
	err    error       // instead of a request
	seen   chan struct{}
	over   chan struct{} // stops a watch that waits on a client that has sent all
	last   atomic.Bool   // the client has sent all: no other request follows
	header http.Header   // of the answer, new for every request
}

// handler answers a request. The context ends when the client no longer waits for it.
type handler func(context.Context, *conn, http.ResponseWriter, *http.Request)

// Times and amounts that a client gets without an answer.
const (
	watchAfter = 10 * time.Millisecond // after it the gateway notices that a waiting client hangs up
	lingerTime = 500 * time.Millisecond
	maxSkip    = 256 << 10 // how much of an unwanted body is read, so that another request can follow
)

func newSession(ctx context.Context, c *conn, served net.Conn, b *held.Budget) *session {
	c.strict = strict.New(served, b)
	s := &session{conn: c, served: served, r: bufio.NewReader(c.strict), seen: make(chan struct{}, 1), over: make(chan struct{}, 1), header: http.Header{}}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	s.clock = time.AfterFunc(headTime, s.endLate)
	s.watch = time.AfterFunc(time.Hour, s.lookForEnd)
	s.watch.Stop() // until a request is there
	return s
}

// endLate ends a connection on which no head comes. A connection that never had a request is reset, so
// that its end is not taken for an answer.
func (s *session) endLate() {
	if s.asked.Load() {
		_ = s.served.Close()
		return
	}
	s.mute.Store(true)
	s.conn.Reset()
}

// serveRequests answers requests until the connection ends. The error is for a connection without any,
// because it does not speak HTTP.
func (s *session) serveRequests(handle handler) (err error) {
	defer func() {
		if p := recover(); p != nil && !aborts(p) { // as net/http does: a panic ends only one connection
			s.log.Printf("http: panic serving %s: %v\n%s", s.conn.host, p, debug.Stack())
			s.conn.Reset()
		}
		s.cancel(nil)
		s.clock.Stop()
		s.watch.Stop()
		s.conn.strict.Release()
		_ = s.served.Close()
	}()
	for s.answerNext(handle) {
		s.clock.Reset(idleTime)
	}
	return s.unheard()
}

// unheard returns why a connection without requests was cut off.
func (s *session) unheard() error {
	switch {
	case s.mute.Load():
		return noHead()
	case errors.Is(s.err, strict.ErrNoHTTP):
		s.conn.Reset()
		return strict.ErrNoHTTP
	}
	return nil
}

// aborts reports whether a handler's panic means that it has no more to say, and that its client
// must see that.
func aborts(p any) bool {
	err, ok := p.(error)
	return ok && errors.Is(err, http.ErrAbortHandler)
}

// cutConn cuts the connection.
func (s *session) cutConn() {
	s.cancel(nil)
	s.clock.Stop()
	s.conn.Reset()
}

// answerNext answers one request. It returns false if that was the last.
func (s *session) answerNext(handle handler) bool {
	if s.r.Buffered() == 0 && s.conn.strict.AwaitPart() != nil {
		return false
	}
	s.clock.Reset(headTime)
	if _, s.err = s.r.Peek(1); s.err != nil {
		return false
	}
	r := s.request()
	if !s.clock.Stop() {
		return false
	}
	s.asked.Store(true)
	body := &clientBody{ReadCloser: r.Body, s: s}
	if r.Body == http.NoBody {
		body.ended.Store(true)
		s.awaitHangUp()
	} else {
		r.Body = body
	}
	w := &reply{s: s, r: r, body: body, header: s.header, giveBack: func() {}}
	defer func() { w.giveBack() }()
	clear(s.header)
	handle(s.ctx, s.conn, w, r)
	body.leaveBody()
	s.unwatch()
	return w.finish() && s.skipBody(body, w)
}

// request reads a request. A request that strict lets through and net/http does not becomes one of
// method refused, too.
func (s *session) request() *http.Request {
	r, err := http.ReadRequest(s.r)
	if err == nil {
		return r
	}
	s.conn.strict.NoteFault(errors.New("the request cannot be read: " + err.Error()))
	return &http.Request{
		Method: strict.Refused, URL: &url.URL{Path: "/"}, RequestURI: "/", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Close: true,
	}
}

// awaitHangUp starts the watch for a client that hangs up.
func (s *session) awaitHangUp() {
	s.armed = true
	s.watch.Reset(watchAfter)
}

// errHungUp is the cause of a request whose client does not wait for the answer.
var errHungUp = errors.New("the client hung up before it had the answer")

// lookForEnd waits for the client to send bytes, which it need not, or to hang up: then the client no
// longer waits for the answer. A client that only closes its sending side still waits.
func (s *session) lookForEnd() {
	_, err := s.r.Peek(1)
	switch {
	case err == nil || http1.IsTimeout(err):
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

// brokenOff reports an end that TLS did not announce, and that package tls takes for a regular one:
// a client that has sent all says so.
func (s *session) brokenOff() bool {
	_, secure := s.served.(*tls.Conn)
	return secure && s.conn.ended.Load()
}

// past is a deadline that is over.
var past = time.Unix(1, 0)

// unwatch ends look. From here on only the caller reads.
func (s *session) unwatch() {
	armed := s.armed
	s.armed = false
	if !armed || s.watch.Stop() {
		return
	}
	_ = s.served.SetReadDeadline(past)
	s.over <- struct{}{}
	<-s.seen
	select {
	case <-s.over: // look did not wait for it
	default:
	}
	_ = s.served.SetReadDeadline(time.Time{})
}

// skipBody reads the rest of a request's body that the handler did not begin to read, if another
// request may follow. Else it hangs up.
func (s *session) skipBody(b *clientBody, w *reply) bool {
	if b.ended.Load() && !w.last {
		return true
	}
	if !b.begun.Load() && !w.last {
		s.clock.Reset(headTime)
		_, err := io.CopyN(io.Discard, b.ReadCloser, maxSkip)
		return err == io.EOF && s.clock.Stop()
	}
	if !b.ended.Load() || s.conn.strict.Failed() != nil {
		s.linger()
	}
	return false
}

// linger ends an answer and gives the client the time to read it: hanging up while the client still
// sends would be a reset.
func (s *session) linger() {
	_ = http1.CloseWrite(s.served)
	_ = s.served.SetReadDeadline(time.Now().Add(lingerTime))
	_, _ = io.Copy(io.Discard, s.served)
}

// clientBody is the body of a request, as it comes.
type clientBody struct {
	io.ReadCloser
	s *session

	mu    sync.Mutex  // is held while it is read
	left  bool        // it may not be read any more
	begun atomic.Bool // its reading has begun
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
		b.s.awaitHangUp()
	}
	return n, err
}

// Close ends a Read that waits for the client. No other request can follow then.
func (b *clientBody) Close() error {
	if b.mu.TryLock() { // no Read is waiting
		b.left = true
		b.mu.Unlock()
		return nil
	}
	return b.s.served.SetReadDeadline(past)
}

// leaveBody ends the handler's use of the body.
func (b *clientBody) leaveBody() {
	_ = b.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = true
}
