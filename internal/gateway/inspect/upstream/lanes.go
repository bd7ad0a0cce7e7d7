package upstream

import (
	"net/http"

	"github.com/bothy-dev/bothy/internal/gateway/held"
	"github.com/bothy-dev/bothy/internal/gateway/inspect/http1"
)

// Bytes of an answer over HTTP/2 that net/http reads from the server before the client has read the
// earlier ones. They are taken before a request is sent: if the client reads nothing, net/http
// keeps all of them.
const (
	wideWindow   = 4 << 20         // fills long ways: 40 MB/s with 100 ms between request and answer
	WideSum      = held.Most / 4   // of all requests that have such a window
	narrowWindow = 64 << 10        // of all others
	serverWindow = 64 * wideWindow // of all on one connection: none keeps the others waiting
)

// lanes are connections to servers over HTTP/2: net/http has one size of window for all requests
// of a transport, so there are two.
type lanes struct{ wide, narrow *http.Transport }

func newLanes(u *Servers) lanes { return lanes{u.transport(wideWindow), u.transport(narrowWindow)} }

// transport returns a transport whose answers have a window of this size.
func (u *Servers) transport(window int) *http.Transport {
	return &http.Transport{
		DialTLSContext:    u.dialHTTP2,
		ForceAttemptHTTP2: true, DisableCompression: true,
		ResponseHeaderTimeout: answerTime, ExpectContinueTimeout: expectTime,
		HTTP2:           &http.HTTP2Config{MaxReceiveBufferPerStream: window, MaxReceiveBufferPerConnection: serverWindow},
		MaxConnsPerHost: perHostHTTP2, MaxIdleConns: idleAll, MaxIdleConnsPerHost: idlePerHost, IdleConnTimeout: idleUpTime,
		MaxResponseHeaderBytes: MaxAnswerHead,
		ReadBufferSize:         http1.BufferSize, WriteBufferSize: http1.BufferSize,
	}
}

func (l lanes) closeIdle() {
	l.wide.CloseIdleConnections()
	l.narrow.CloseIdleConnections()
}

// takeLane takes the window of an answer, a wide one if memory is left for it.
func (l lanes) takeLane(t *Trip) (*http.Transport, error) {
	if t.Window.Take(wideWindow) == nil {
		return l.wide, nil
	}
	return l.narrow, t.Hold.Take(narrowWindow)
}
