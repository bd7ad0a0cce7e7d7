// Package inspect inspects HTTP on behalf of the policy. It answers a connection in the place of
// the server, judges every request on it, and sends the allowed ones to the real server, over its
// own connections.
//
// The bytes that are judged are the bytes that are sent: a request is parsed once, strictly, and
// written anew. The inside's bytes are never passed on as they came, except bodies and the bytes
// after an upgrade that a rule allows.
package inspect

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/held"
	"github.com/bothy-dev/bothy/internal/gateway/inject"
	"github.com/bothy-dev/bothy/internal/gateway/inspect/strict"
	"github.com/bothy-dev/bothy/internal/gateway/inspect/upstream"
	"github.com/bothy-dev/bothy/internal/gateway/meter"
	"github.com/bothy-dev/bothy/internal/gateway/relay"
	"github.com/bothy-dev/bothy/internal/gateway/uploadlimit"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

// target returns a host as the secrets see it.
func (i *Inspector) target(h upstream.Host) inject.Target {
	if i.conf.Target != nil {
		return i.conf.Target(h)
	}
	return inject.Target{Name: h.Name, Addr: h.Addr, Port: h.Port, Secure: h.TLS}
}

// Config configures an inspector. All functions are called concurrently.
type Config struct {
	// CatchUp is called before a request is judged; nil: no call.
	CatchUp func()
	// Judge decides about a request.
	Judge func(upstream.Host, *policy.Request) policy.Decision
	// Outflow returns the meter of a budget. It may be nil if no decision has one.
	Outflow func(*policy.Budget) *uploadlimit.Meter
	// Closed returns why no request may pass now, whatever the policy. It may be nil.
	Closed func() error
	// Dial connects to the real server, if its address may be dialled. Without TLS, it may return a
	// [dial.Forwarded].
	Dial func(context.Context, upstream.Host) (relay.Conn, error)
	// Certificate vouches for a name or address towards the inside.
	Certificate func(name string) (*tls.Certificate, error)
	// Still reports whether a connection to a server at this address may go on.
	Still func(upstream.Host, netip.Addr) bool
	// Roots are the authorities that must vouch for real servers; nil: the host's.
	Roots *x509.CertPool
	// Secrets returns the secrets lent to the sandbox now.
	Secrets func() *inject.Set
	// Logins renews the lent secrets that are logins of the host; nil: none are.
	Logins Logins
	// Capture keeps on the host the logins that programs inside are given; nil: they are not kept.
	Capture *Capture
	// Sandbox is its name, for messages to the inside.
	Sandbox string
	// Local returns the handler for a host that is the gateway itself; nil for all others. It may be
	// nil.
	Local func(upstream.Host) http.Handler
	// Mock returns the handler that plays the server of a host; nil for all others. It may be nil.
	Mock func(upstream.Host) http.Handler
	// Sent is called when all of a request with a body has come from the inside and is on its way. It
	// may be nil.
	Sent func(upstream.Host)
	// Meter begins to count what the model takes for a request. It returns nil if the request asks
	// none, and an error if the model may not be asked. It may be nil.
	Meter func(upstream.Host, *http.Request) (*meter.Tally, error)
	// Target returns a host as the secrets see it; nil: the host itself.
	Target func(upstream.Host) inject.Target
	// Named returns a server's own name if the inside calls it by another; the empty string, and a
	// nil Named: the names are the same.
	Named func(upstream.Host) string
	// Held bounds the memory that the inside can make it hold; nil: no bound.
	Held *held.Budget
	// Log is called with every request that was refused or has ended.
	Log func(spec.NetworkRecord, *policy.Decision)
}

// Inspector inspects the connections of one sandbox.
type Inspector struct {
	conf     Config
	tls      *tls.Config
	server   *http.Server // of connections over HTTP/2
	queue    *queue
	up       *upstream.Servers
	requests *held.Budget  // for the memory of requests; connections have the rest
	windows  *held.Budget  // for wide windows of answers
	heads    *held.Budget  // for heads over HTTP/2 that no handler has counted yet
	room     *held.Budget  // for bodies that are judged
	readTime time.Duration // for a body that is read as a whole
	sendTime time.Duration // for sending one that was judged
	wg       sync.WaitGroup

	mu       sync.Mutex
	sessions map[*session]struct{} // over HTTP/1
	ended    bool
}

// Limits of a connection.
const (
	headTime   = 30 * time.Second // for a handshake, or the head of a request
	idleTime   = 5 * time.Minute  // between two requests
	maxStreams = 100              // requests at once on one connection
	holdConn   = 24 << 10         // bytes of a connection: records of TLS, buffers, stacks
)

// New makes an inspector. The caller has to close it.
func New(c Config) *Inspector {
	if c.CatchUp == nil {
		c.CatchUp = func() {}
	}
	i := &Inspector{conf: c, queue: newQueue(), up: upstream.New(upstream.Config{Dial: c.Dial, Still: c.Still, Named: c.Named, Roots: c.Roots}), requests: c.Held.Part(held.Most * 3 / 4), readTime: callsTime, sendTime: callsSend, sessions: map[*session]struct{}{}}
	i.heads = c.Held.Part(held.Most / 8)
	i.windows = i.requests.Part(upstream.WideSum)
	i.room = i.requests.Part(callsRoom)
	i.tls = &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			to := h.Conn.(*conn)
			to.shown = true
			return c.Certificate(to.host.Hostname())
		},
		DynamicRecordSizingDisabled: true, // this link has no packets that records should fit into
	}
	quick := i.tls.Clone()
	quick.CurvePreferences = quickCurves
	i.tls.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		h.Conn.(*conn).offers = h.SupportedProtos
		if slices.ContainsFunc(h.SupportedCurves, func(c tls.CurveID) bool { return slices.Contains(quickCurves, c) }) {
			return quick, nil
		}
		return nil, nil
	}
	i.server = &http.Server{
		Handler:                      http.HandlerFunc(i.handleHTTP2),
		DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout:            headTime, IdleTimeout: idleTime, MaxHeaderBytes: strict.MaxHead,
		Protocols: overHTTP2(), // we speak TLS ourselves: see frames
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReadFrameSize: frameSize,
			MaxReceiveBufferPerConnection: bodyWindow, MaxReceiveBufferPerStream: bodyWindow,
		},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, ownerOf(c))
		},
		ErrorLog: log.New(&mistakes{to: os.Stderr}, "", 0),
	}
	i.wg.Go(func() { _ = i.server.Serve(i.queue) })
	return i
}

// overHTTP2 is HTTP/2, spoken at once.
func overHTTP2() *http.Protocols {
	p := &http.Protocols{}
	p.SetUnencryptedHTTP2(true)
	return p
}

// quickCurves leave out the curves against quantum computers, which cost as much as all the rest of
// a handshake. The bytes between the inside and its keeper never leave the memory of this host.
var quickCurves = []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521}

// mistakes passes on net/http's log of our own mistakes: that a handler panicked, and where. A
// panic ends only the request and its connection, so it would go unnoticed otherwise.
type mistakes struct {
	to   io.Writer
	told atomic.Int32
}

// maxMistakes bounds the mistakes that are logged: a client that can provoke one can repeat it.
const maxMistakes = 16

func (m *mistakes) Write(p []byte) (int, error) {
	if bytes.Contains(p[:min(len(p), 64)], []byte(": panic serving ")) && m.told.Add(1) <= maxMistakes {
		return m.to.Write(p)
	}
	return len(p), nil
}

// Close ends all connections, here and to servers.
func (i *Inspector) Close() {
	_ = i.server.Close()
	for _, s := range i.shutSessions() {
		s.cutConn()
	}
	i.up.Close()
	i.wg.Wait()
}

// shutSessions refuses new connections over HTTP/1, and returns the existing ones.
func (i *Inspector) shutSessions() []*session {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ended = true
	return slices.Collect(maps.Keys(i.sessions))
}

// enterSession notes a connection over HTTP/1. It returns false if the inspector is closed. The caller has
// to leave again.
func (i *Inspector) enterSession(s *session) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ended {
		return false
	}
	i.sessions[s] = struct{}{}
	i.wg.Add(1)
	return true
}

func (i *Inspector) leaveSession(s *session) {
	i.mu.Lock()
	delete(i.sessions, s)
	i.mu.Unlock()
	i.wg.Done()
}

// Serve inspects a connection until it ends. said are the bytes that were read of it before. Errors
// of single requests go to the log. The returned error is for a connection without requests.
func (i *Inspector) Serve(ctx context.Context, inside relay.Conn, said []byte, h upstream.Host, n *relay.Counts, t *Track) error {
	c := &conn{Conn: inside, host: h, rest: said, counts: n, done: make(chan struct{}), track: t, hold: i.conf.Held.Hold()}
	defer c.hold.Release()
	if err := c.hold.Take(holdConn); err != nil {
		inside.Reset()
		return err
	}
	defer context.AfterFunc(ctx, inside.Reset)()
	served := net.Conn(c)
	if h.TLS {
		secure := tls.Server(c, i.tls)
		if err := i.handshake(ctx, c, secure); err != nil {
			inside.Reset()
			return err
		}
		served = secure
	}
	if s, ok := served.(*tls.Conn); ok && s.ConnectionState().NegotiatedProtocol == "h2" {
		return i.serveHTTP2(c, s)
	}
	one := newSession(ctx, c, served, i.conf.Held)
	one.log = i.server.ErrorLog
	if !i.enterSession(one) {
		one.cutConn()
		return net.ErrClosed
	}
	defer i.leaveSession(one)
	return one.serveRequests(i.handleHTTP1)
}

// serveHTTP2 returns when the connection has ended.
func (i *Inspector) serveHTTP2(c *conn, s *tls.Conn) error {
	if err := c.hold.Take(holdHTTP2); err != nil {
		c.Reset()
		return err
	}
	c.frames = newFrames(s, c, i.heads)
	defer c.frames.release()
	if !i.queue.putConn(c.frames) {
		c.Reset()
		return net.ErrClosed
	}
	<-c.done
	return c.frames.failed()
}

// Review ends the connections to servers that may not go on. The caller ends those to the inside,
// by their Tracks.
func (i *Inspector) Review() { i.up.Review(i.conf.Still) }

// noHead is for bytes that may begin a request, but do not go on.
func noHead() error {
	return fmt.Errorf("%w: no head of a request has come whole within %s", strict.ErrNoHTTP, headTime)
}

// queue hands connections to the server.
type queue struct {
	conns chan net.Conn
	once  sync.Once
	gone  chan struct{}
}

func newQueue() *queue { return &queue{conns: make(chan net.Conn), gone: make(chan struct{})} }

func (q *queue) putConn(c net.Conn) bool {
	select {
	case q.conns <- c:
		return true
	case <-q.gone:
		return false
	}
}

// Accept waits for the next connection.
func (q *queue) Accept() (net.Conn, error) {
	select {
	case c := <-q.conns:
		return c, nil
	case <-q.gone:
		return nil, net.ErrClosed
	}
}

// Close makes put and Accept fail.
func (q *queue) Close() error {
	q.once.Do(func() { close(q.gone) })
	return nil
}

// Addr is for callers that print it.
func (*queue) Addr() net.Addr { return &net.TCPAddr{} }

var errHeld = errors.New("the request holds more than its rule allows")
