package inspect

import (
	"context"
	"net/http"

	"github.com/bothy-dev/bothy/internal/gateway/inspect/http1"
)

// Bytes that a request takes besides its head: goroutines and their memory, buffers for copying its
// body and that of its answer, and the memory for reading a compressed body.
const (
	holdBase    = 12 << 10
	holdCopy    = http1.BufferSize
	holdInflate = 256 << 10
	holdField   = 200 // of a header, twice: as received, and as sent
)

// headHolds returns how many bytes the head of a request or answer takes at most.
func headHolds(h http.Header) int64 {
	n := int64(0)
	for name, values := range h {
		n += int64(len(name)) + holdField
		for _, v := range values {
			n += int64(len(v)) + holdField
		}
	}
	return n
}

// holdRequest takes the memory that a request holds until it is answered.
func (x *exchange) holdRequest(r *http.Request) error {
	n := holdBase + headHolds(r.Header) + int64(len(r.RequestURI)+len(r.Host))
	if r.Body != nil && r.Body != http.NoBody {
		n += holdCopy
		if r.Header.Get("Content-Encoding") != "" {
			n += holdInflate
		}
	}
	return x.trip.Hold.Take(n)
}

// holdAnswer takes the memory of an answer. An answer that changes the protocol is copied in both
// directions.
func (x *exchange) holdAnswer(resp *http.Response) error {
	n := headHolds(resp.Header)
	if resp.StatusCode == http.StatusSwitchingProtocols {
		n += holdCopy
	}
	if resp.Body != nil && resp.Body != http.NoBody {
		n += holdCopy
		if resp.Header.Get("Content-Encoding") != "" {
			n += holdInflate
		}
	}
	return x.trip.Hold.Take(n)
}

// release gives back the memory of a request.
func (x *exchange) release() {
	x.trip.Hold.Release()
	x.trip.Window.Release()
}

// handleHTTP2 counts the head of a request over HTTP/2, and handles it.
func (i *Inspector) handleHTTP2(w http.ResponseWriter, r *http.Request) {
	c := connOf(r)
	x, err := i.beginExchange(c, r)
	stream := c.frames.handles()
	defer c.frames.handled(stream, x.release)
	if err != nil {
		x.refuse(err.Error())
		i.logExchange(x)
		c.frames.refuse(stream)
		panic(http.ErrAbortHandler)
	}
	i.handle(r.Context(), x, w, r)
}

// handleHTTP1 is handleHTTP2 for a connection on which requests follow each other.
func (i *Inspector) handleHTTP1(ctx context.Context, c *conn, w http.ResponseWriter, r *http.Request) {
	x, err := i.beginExchange(c, r)
	w.(*reply).giveBack = x.release
	if err != nil {
		i.turnAway(w, r, x, http.StatusServiceUnavailable, err)
		i.logExchange(x)
		return
	}
	i.handle(ctx, x, w, r)
}
