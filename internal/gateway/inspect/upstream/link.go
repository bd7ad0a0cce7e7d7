package upstream

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bothy-dev/bothy/internal/gateway/held"
	"github.com/bothy-dev/bothy/internal/gateway/inspect/http1"
	"github.com/bothy-dev/bothy/internal/gateway/uploadlimit"
)

// link is a connection to a server that speaks HTTP/1. It carries one request at a time.
type link struct {
	u      *Servers
	server *server
	conn   net.Conn
	out    *outside
	raw    syscall.RawConn // nil: quiet cannot look at it
	r      *bufio.Reader
	timer  *time.Timer // until the head of an answer is there
	since  time.Time   // it is idle

	left    int64 // of the head that is read, in bytes
	inHead  bool
	ended   bool               // it was read to its end, or to an error
	late    atomic.Bool        // the timer went off
	used    bool               // it has carried a request to its end
	outflow *uploadlimit.Meter // of the request it carries; nil: it is not counted
	hold    *held.Hold         // of the request it carries
	touched bool               // some of an answer has come
}

// MaxAnswerHead bounds the head of an answer, in bytes.
const MaxAnswerHead = 256 << 10

// linkBuffer is for the heads of answers, and small bodies. Large bodies bypass it.
const linkBuffer = 4 << 10

func newLink(u *Servers, s *server, c net.Conn, out *outside) *link {
	l := &link{u: u, server: s, conn: c, out: out}
	l.r = bufio.NewReaderSize(l, linkBuffer)
	if c, ok := out.Conn.(syscall.Conn); ok {
		l.raw, _ = c.SyscallConn()
	}
	l.timer = time.AfterFunc(time.Hour, func() { l.late.Store(true); out.Reset() })
	l.timer.Stop() // until a request is sent
	return l
}

// errLongHead and errLate are for servers that do not finish a head.
var (
	errStatus   = errors.New("the answer has a status that is none")
	errLongHead = errors.New("the head of the answer is too long")
	errLate     = errors.New("the head of the answer takes too long")
)

// Read reads the server's bytes. It bounds the head of an answer.
func (l *link) Read(b []byte) (int, error) {
	if l.inHead {
		if l.left <= 0 {
			return 0, errLongHead
		}
		b = b[:min(int64(len(b)), l.left)]
	}
	n, err := l.conn.Read(b)
	if l.inHead {
		l.left -= int64(n)
		if full := l.holdHead(n); full != nil {
			return 0, full
		}
	}
	l.touched = l.touched || n > 0
	l.ended = l.ended || err != nil
	return n, err
}

// holdHead takes the memory of a part of a head, unless the buffer still has room for the whole
// head.
func (l *link) holdHead(n int) error {
	if l.hold == nil || MaxAnswerHead-l.left <= linkBuffer {
		return nil
	}
	return l.hold.Take(2 * int64(n))
}

// isQuiet reports whether an idle connection can take another request: the server has neither hung up
// nor sent bytes that were not asked for.
func (l *link) isQuiet() bool {
	if l.raw == nil || l.ended || l.r.Buffered() > 0 {
		return false
	}
	still := false
	err := l.raw.Control(func(fd uintptr) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN | unix.POLLRDHUP}}, 0)
		still = n == 0 && err == nil
	})
	return still && err == nil && l.isEmpty()
}

// isEmpty reports whether TLS holds no bytes that it has read from the network but not delivered yet:
// a record after the last answer would be taken for the next answer.
func (l *link) isEmpty() bool {
	t, ok := l.conn.(*tls.Conn)
	if !ok {
		return true
	}
	l.out.deaf = true
	defer func() { l.out.deaf = false }()
	var b [1]byte
	n, err := t.Read(b[:])
	return n == 0 && http1.IsTimeout(err)
}

// mayRepeat reports whether a failed request may be sent again, over another connection: this one
// was idle before, no bytes came back, and the request changes nothing.
func (l *link) mayRepeat(ctx context.Context, r *http.Request) bool {
	return l.used && !l.touched && !l.late.Load() && ctx.Err() == nil && r.Body == nil &&
		slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace}, r.Method)
}

// closeLink ends a connection without an active request. It sends no TLS goodbye: that could wait
// seconds for a server that does not read, and so would every review of all connections.
func (l *link) closeLink() {
	l.timer.Stop()
	_ = l.out.Close()
}

// exchange sends a request and returns the answer when its head has arrived. From then on the body
// of the answer owns the link.
func (l *link) exchange(ctx context.Context, r *http.Request, t *Trip) (*http.Response, error) {
	l.touched, l.outflow, l.hold = false, t.Outflow, t.Hold
	b := &AnswerBody{link: l, request: r.Body, stop: context.AfterFunc(ctx, l.out.Reset)}
	var err error
	if r.Body == nil {
		if err = l.sendRequest(r, nil); err == nil {
			l.timer.Reset(l.u.head)
		}
	} else {
		b.upload = newUpload(r)
		go b.upload.runUpload(l, r)
	}
	var resp *http.Response
	if err == nil {
		resp, err = l.readHead(r, b.upload, t)
	}
	if err != nil {
		b.dropLink()
		return nil, b.failure(ctx, err)
	}
	if err = l.checkForwarded(resp); err != nil {
		b.dropLink()
		return nil, b.failure(ctx, err)
	}
	b.takeBody(resp)
	return resp, nil
}

// readHead reads the head of the answer, and passes on those that come before it.
func (l *link) readHead(r *http.Request, up *upload, t *Trip) (*http.Response, error) {
	defer func() { l.inHead = false }()
	for {
		l.inHead, l.left = true, MaxAnswerHead-int64(l.r.Buffered())
		resp, err := http.ReadResponse(l.r, r)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode < 100 {
			return nil, errStatus
		}
		if resp.StatusCode < 200 && resp.StatusCode != http.StatusSwitchingProtocols {
			if resp.StatusCode == http.StatusContinue {
				up.allowBody()
			}
			if err := t.interim(resp.StatusCode, resp.Header); err != nil {
				return nil, err
			}
			continue
		}
		up.answered(l, !resp.Close)
		l.timer.Stop()
		return resp, nil
	}
}

// AnswerBody is the body of an answer. It owns the link until it ends.
type AnswerBody struct {
	link    *link
	request io.ReadCloser // the request's body; nil: it has none
	upload  *upload       // of it
	stop    func() bool   // watching the context
	body    io.ReadCloser // without its framing
	length  int64         // -1: unknown
	last    bool          // there may be no other request after it
	over    bool
}

// takeBody begins with the body of an answer.
func (b *AnswerBody) takeBody(resp *http.Response) {
	b.body, b.length, b.last = resp.Body, resp.ContentLength, resp.Close
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols:
		resp.Body = &rawBody{b}
	case b.body == http.NoBody:
		b.endBody()
	default:
		resp.Body = b
	}
}

func (b *AnswerBody) Read(p []byte) (int, error) {
	if b.over {
		return 0, io.EOF
	}
	n, err := b.body.Read(p)
	switch {
	case err == io.EOF:
		b.endBody()
	case err != nil:
		b.dropLink()
	}
	return n, err
}

// Close gives the link up if the body was not read to its end.
func (b *AnswerBody) Close() error {
	b.dropLink()
	return nil
}

// ComesSoon reports whether the next Read returns without waiting for the server. A false may be wrong.
func (b *AnswerBody) ComesSoon() bool {
	if b.over {
		return true
	}
	n := b.link.r.Buffered()
	if b.length >= 0 || n == 0 {
		return n > 0
	}
	rest, _ := b.link.r.Peek(n)
	rest = bytes.TrimPrefix(rest, []byte("\r\n"))
	size, rest, ok := bytes.Cut(rest, []byte("\r\n"))
	if !ok || len(rest) == 0 {
		return false
	}
	return len(bytes.Trim(size, "0")) > 0 || bytes.HasSuffix(rest, []byte("\r\n"))
}

// IsComplete reports whether all of the body has arrived.
func (b *AnswerBody) IsComplete() bool {
	return b.over || b.length >= 0 && int64(b.link.r.Buffered()) >= b.length
}

// uploadTime is how long after an answer the request's body may take to end. The body has no use by
// then, but most bodies are about to end.
const uploadTime = 50 * time.Millisecond

// endBody keeps the link for the next request, if it can be.
func (b *AnswerBody) endBody() {
	if b.over {
		return
	}
	l := b.link
	if !b.upload.finished(uploadTime) || !b.stop() {
		b.dropLink()
		return
	}
	b.over, l.used = true, true
	defer l.u.links.leaveServer(l.server) // the pool must not forget the server before that
	if b.last || l.ended || l.r.Buffered() > 0 {
		l.closeLink()
		return
	}
	l.u.links.putIdle(l)
}

// dropLink cuts the link off.
func (b *AnswerBody) dropLink() {
	if b.over {
		return
	}
	b.over = true
	b.stop()
	b.link.out.Reset()
	b.upload.cutBody(b.request)
	b.link.timer.Stop()
	b.link.u.links.leaveServer(b.link.server)
}

// failure returns why no answer came: the error of the side that failed first.
func (b *AnswerBody) failure(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case b.upload != nil && b.upload.unread != nil:
		return b.upload.unread
	case b.link.late.Load():
		return errLate
	}
	return err
}

// rawBody is a connection after a 101.
type rawBody struct{ b *AnswerBody }

func (c *rawBody) Read(p []byte) (int, error)  { return c.b.link.r.Read(p) }
func (c *rawBody) Write(p []byte) (int, error) { return c.b.link.writer().Write(p) }

// CloseWrite sends the end to the server.
func (c *rawBody) CloseWrite() error {
	return http1.CloseWrite(c.b.link.conn)
}

// Close ends it in both directions.
func (c *rawBody) Close() error {
	_ = c.b.link.conn.Close()
	c.b.dropLink()
	return nil
}

// sendRequest writes a request.
func (l *link) sendRequest(r *http.Request, up *upload) error {
	w := http1.NewWriter(l.writer())
	defer http1.PutWriter(w)
	if err := l.writeHead(w, r); err != nil {
		return err
	}
	if up == nil {
		return w.Flush()
	}
	if err := w.Flush(); err != nil { // the body may be long in coming
		return err
	}
	if err := up.wanted(); err != nil {
		return err
	}
	return up.writeBody(w, r)
}

// writer is where a request is written to. Bytes beyond its budget are dropped.
func (l *link) writer() io.Writer {
	if _, sealed := l.conn.(*tls.Conn); sealed {
		return l.outflow.Sealed(l.conn)
	}
	return l.outflow.Writer(l.conn)
}

// unsent are fields of a request that are written in another way.
func unsent() map[string]bool {
	return map[string]bool{"Host": true, "Content-Length": true, "Transfer-Encoding": true, "Trailer": true}
}

// errRequest is for a request that could be read in two ways. Judging stops such a request before
// this point.
var errRequest = errors.New("the request cannot be written")

// writeHead writes the request line, the fields, and how the body is framed.
func (l *link) writeHead(w *bufio.Writer, r *http.Request) error {
	target, left, by := r.URL.RequestURI(), unsent(), l.forwarded()
	if by != nil {
		var err error
		if target, err = forwardTarget(by, r); err != nil {
			return err
		}
		left = unforwarded()
	}
	if !http1.IsWord(target) || !http1.IsWord(r.Host) || r.Method == "" || !http1.IsWord(r.Method) {
		return errRequest
	}
	for _, s := range []string{r.Method, " ", target, " HTTP/1.1\r\nHost: ", r.Host, "\r\n"} {
		_, _ = w.WriteString(s)
	}
	if by != nil && by.Proxy().Authorization() != "" {
		_, _ = w.WriteString("Proxy-Authorization: " + by.Proxy().Authorization() + "\r\n")
	}
	if err := r.Header.WriteSubset(w, left); err != nil {
		return err
	}
	switch {
	case r.Body == nil:
		if slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, r.Method) {
			_, _ = w.WriteString("Content-Length: 0\r\n")
		}
	case r.ContentLength >= 0:
		http1.WriteNumber(w, "Content-Length: ", r.ContentLength, 10)
	default:
		_, _ = w.WriteString("Transfer-Encoding: chunked\r\n")
		writeTrailerNames(w, r.Trailer)
	}
	_, err := w.WriteString("\r\n")
	return err
}
