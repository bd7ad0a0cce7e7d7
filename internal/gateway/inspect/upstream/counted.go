package upstream

import (
	"io"
	"net"
	"net/http"
	"strconv"

	"github.com/bothy-dev/bothy/internal/gateway/uploadlimit"
)

// A request's bytes are counted as they are written for its server: over HTTP/1 and a WebSocket
// after it every byte, in link. Over HTTP/2 net/http writes, and compresses the head. So the head
// is counted as text, and the body with its frames.

// frameHead is the length of an HTTP/2 frame's head.
const frameHead = 9

// countedHead is the head of a request over HTTP/2. A nil countedHead counts nothing.
type countedHead struct {
	m    *uploadlimit.Meter
	size int
	sent bool
}

// countHead counts the head of a request that is about to be sent over HTTP/2.
func (t *Trip) countHead(r *http.Request) (*countedHead, error) {
	if t.Outflow == nil {
		return nil, nil
	}
	h := &countedHead{m: t.Outflow, size: headSize(r)}
	_, err := t.Outflow.Take(h.size)
	return h, err
}

// sentOver is called for every connection that the head is sent over: a server may make net/http
// send it once more, over another one. Only closing the connection keeps net/http from doing so.
func (h *countedHead) sentOver(c net.Conn) {
	if h == nil {
		return
	}
	if h.sent {
		if _, err := h.m.Take(h.size); err != nil {
			_ = c.Close()
		}
	}
	h.sent = true
}

// headSize returns the length of a head as text.
func headSize(r *http.Request) int {
	n := len(r.Method) + len(r.URL.RequestURI()) + len(r.Host) + len(strconv.FormatInt(r.ContentLength, 10)) + frameHead
	return n + fieldsSize(r.Header) + fieldsSize(r.Trailer)
}

func fieldsSize(h http.Header) (n int) {
	for name, values := range h {
		n += len(name)
		for _, v := range values {
			n += len(name) + len(": \r\n") + len(v)
		}
	}
	return n
}

// countBody makes the body of a request over HTTP/2 count.
func (t *Trip) countBody(r *http.Request) io.ReadCloser {
	if t.Outflow == nil || r.Body == nil {
		return r.Body
	}
	return &countedBody{ReadCloser: r.Body, m: t.Outflow, trailer: r.Trailer}
}

// countedBody returns no more bytes than may be sent.
type countedBody struct {
	io.ReadCloser
	m       *uploadlimit.Meter
	trailer http.Header // filled when the body ends
	err     error       // the error after the last byte that may be sent
}

func (b *countedBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		if _, spent := b.m.Take(fieldsSize(b.trailer)); spent != nil {
			err = spent
		}
	}
	if n == 0 {
		return 0, err
	}
	some, spent := b.m.Take(frameHead + n)
	if spent == nil {
		return n, err
	}
	b.err = spent
	if n = some - frameHead; n > 0 {
		return n, nil
	}
	return 0, spent
}
