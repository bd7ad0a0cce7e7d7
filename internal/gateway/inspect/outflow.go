package inspect

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"

	"github.com/bothy-dev/bothy/internal/gateway/outflow"
	"github.com/bothy-dev/bothy/spec"
)

// What a request sends is counted as it is written for its server: over HTTP/1 and a
// WebSocket behind it every byte, in link. Over HTTP/2 net/http writes, and makes less of
// a head than it has as text; so that is counted, and a body with the frames it is put
// into.

// frameHead is how long the head of a frame of HTTP/2 is.
const frameHead = 9

// countedHead is the head of a request over HTTP/2. Its nil counts nothing.
type countedHead struct {
	m    *outflow.Meter
	size int
	sent bool
}

// countHead counts the head of a request that is about to be sent over HTTP/2.
func (x *exchange) countHead(r *http.Request) (*countedHead, error) {
	if x.outflow == nil {
		return nil, nil
	}
	h := &countedHead{m: x.outflow, size: headSize(r)}
	_, err := x.outflow.Take(h.size)
	return h, err
}

// sentOver is told of every connection the head is sent over: a server may have net/http
// send it once more, over another one. Nobody can tell net/http not to, but that the
// connection is closed.
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

// headSize is how long a head is as text.
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

// countBody has the body of a request over HTTP/2 counted.
func (x *exchange) countBody(r *http.Request) io.ReadCloser {
	if x.outflow == nil || r.Body == nil {
		return r.Body
	}
	return &countedBody{ReadCloser: r.Body, m: x.outflow, trailer: r.Trailer}
}

// countedBody gives no more than may be sent.
type countedBody struct {
	io.ReadCloser
	m       *outflow.Meter
	trailer http.Header // filled when the body ends
	err     error       // what comes behind the last that may
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

// stop answers a request of which no more may be sent.
func (i *Inspector) stop(w http.ResponseWriter, r *http.Request, x *exchange) {
	if err := x.outflow.Err(); !errors.Is(err, outflow.ErrSpent) {
		i.turnAway(w, r, x, http.StatusServiceUnavailable, err)
		return
	}
	i.noteSpent(x)
	i.deny(w, r, &x.decision)
}

// noteSpent notes that a request was stopped because nothing was left of its budget. Which
// that was may have changed since it was let through.
func (i *Inspector) noteSpent(x *exchange) {
	err := x.outflow.Err()
	if err == nil || x.record.Verdict == spec.VerdictDeny {
		return
	}
	if errors.Is(err, outflow.ErrSpent) {
		now := i.conf.Judge(x.conn.host, &x.request)
		if now.Allowed() { // there is more just now
			now = x.decision.UsedUp(x.outflow.Sent())
		}
		x.decision = now
		x.refuse(x.decision.Reason())
		return
	}
	x.refuse(err.Error())
}

// endSpent ends a call of gRPC that may send no more. It is false if that is not what
// happened.
func (i *Inspector) endSpent(r *http.Request, x *exchange) bool {
	if x.outflow.Err() == nil || r.ProtoMajor != 2 || !isGRPC(r) || x.record.Status == 0 {
		return false
	}
	i.noteSpent(x)
	h := x.w.Header()
	h[http.TrailerPrefix+"Grpc-Status"] = []string{strconv.Itoa(grpcResourceExhausted)}
	h[http.TrailerPrefix+"Grpc-Message"] = []string{escapeGRPC("bothy: " + x.record.Reason)}
	return true
}
