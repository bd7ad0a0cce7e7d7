// Package inspect looks into HTTP on behalf of the policy. It answers a
// connection in the place of the server, judges every request on it, and sends
// those that may pass to the real server, over connections of its own.
//
// What is judged is what is sent: a request is parsed once, strictly, and
// written anew. Bytes of the inside are never passed on as they came, but for
// bodies and for what follows an upgrade that a rule allows.
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
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/held"
	"github.com/bothy-dev/bothy/internal/gateway/inject"
	"github.com/bothy-dev/bothy/internal/gateway/meter"
	"github.com/bothy-dev/bothy/internal/gateway/outflow"
	"github.com/bothy-dev/bothy/internal/gateway/relay"
	"github.com/bothy-dev/bothy/internal/policy"
	"github.com/bothy-dev/bothy/spec"
)

// Host is whom a connection is for.
type Host struct {
	Name string     // empty for a literal address
	Addr netip.Addr // the literal address
	Port uint16
	TLS  bool
}

// String gives the host with its port, as a URL has it.
func (h Host) String() string { return net.JoinHostPort(h.host(), strconv.Itoa(int(h.Port))) }

func (h Host) target() inject.Target {
	return inject.Target{Name: h.Name, Addr: h.Addr, Port: h.Port, Secure: h.TLS}
}

// target is whom a host is as far as secrets are concerned.
func (i *Inspector) target(h Host) inject.Target {
	if i.conf.Target != nil {
		return i.conf.Target(h)
	}
	return h.target()
}

func (h Host) host() string {
	if h.Name != "" {
		return h.Name
	}
	return h.Addr.String()
}

// Config says what an inspector works with. All functions are called
// concurrently.
type Config struct {
	// CatchUp is called before a request is judged; nil: there is nothing to catch up with.
	CatchUp func()
	// Judge decides about a request.
	Judge func(Host, *policy.Request) policy.Decision
	// Outflow gives who counts what is sent for a budget. May be nil, if no decision has one.
	Outflow func(*policy.Budget) *outflow.Meter
	// Closed says why no request may pass now, whatever the policy. May be nil.
	Closed func() error
	// Dial connects to the real server, if the address it has may be dialled. Without TLS,
	// what it gives may be [dial.Forwarded].
	Dial func(context.Context, Host) (relay.Conn, error)
	// Certificate vouches for a name or address towards the inside.
	Certificate func(name string) (*tls.Certificate, error)
	// Still tells whether a connection to a server at this address may go on.
	Still func(Host, netip.Addr) bool
	// Roots are whom real servers must be vouched for by; nil: the host's.
	Roots *x509.CertPool
	// Secrets are those lent to the sandbox just now.
	Secrets func() *inject.Set
	// Logins renews those of them that are logins of the host; nil: there are none.
	Logins Logins
	// Capture keeps on the host what programs inside are given to log in with; nil:
	// nobody does.
	Capture *Capture
	// Sandbox is its name, for what is said to the inside.
	Sandbox string
	// Local gives who answers for a host that is the gateway itself; nil for all
	// others. May be nil.
	Local func(Host) http.Handler
	// Mock gives who plays the server of a host; nil for all others. May be nil.
	Mock func(Host) http.Handler
	// Sent is told when all of a request that has a body has come from the inside, and
	// is on its way. May be nil.
	Sent func(Host)
	// Meter begins to count what the model takes that a request asks; nil if it asks none.
	// The error says why it may not be asked. May be nil.
	Meter func(Host, *http.Request) (*meter.Tally, error)
	// Target is whom a host is as far as secrets are concerned; nil: itself.
	Target func(Host) inject.Target
	// Named is what a server is called where that is not what the inside calls it; nil, and the
	// empty string: it is the same.
	Named func(Host) string
	// Held bounds what the inside can have it hold; nil: nothing does.
	Held *held.Budget
	// Log is told of every request, when it was refused or has ended.
	Log func(spec.NetworkRecord, *policy.Decision)
}

// Inspector looks into the connections of one sandbox.
type Inspector struct {
	conf     Config
	tls      *tls.Config
	server   *http.Server // of connections over HTTP/2
	queue    *queue
	up       *upstream
	requests *held.Budget  // for what requests hold; connections have the rest
	windows  *held.Budget  // for wide windows of answers
	heads    *held.Budget  // for heads over HTTP/2 that nobody has counted yet
	room     *held.Budget  // for bodies that are judged
	readTime time.Duration // for a body that is read as a whole
	sendTime time.Duration // for sending one that was judged
	wg       sync.WaitGroup

	mu       sync.Mutex
	sessions map[*session]struct{} // over HTTP/1
	ended    bool
}

// Limits of what a connection may ask for.
const (
	headTime      = 30 * time.Second // for a handshake, or the head of a request
	idleTime      = 5 * time.Minute  // between two requests
	maxHead       = 128 << 10        // bytes
	maxAnswerHead = 256 << 10
	maxStreams    = 100      // requests at once on one connection
	holdConn      = 24 << 10 // bytes of a connection: records of TLS, buffers, stacks
)

// New makes an inspector. It has to be closed.
func New(c Config) *Inspector {
	if c.CatchUp == nil {
		c.CatchUp = func() {}
	}
	i := &Inspector{conf: c, queue: newQueue(), up: newUpstream(c), requests: c.Held.Part(held.Most * 3 / 4), readTime: callsTime, sendTime: callsSend, sessions: map[*session]struct{}{}}
	i.heads = c.Held.Part(held.Most / 8)
	i.windows = i.requests.Part(wideSum)
	i.room = i.requests.Part(callsRoom)
	i.tls = &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			to := h.Conn.(*conn)
			to.shown = true
			return c.Certificate(to.host.host())
		},
		DynamicRecordSizingDisabled: true, // there are no packets to fit into
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
		ReadHeaderTimeout:            headTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHead,
		Protocols: over2(), // TLS is ours: see frames
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReadFrameSize: frameSize,
			MaxReceiveBufferPerConnection: bodyWindow, MaxReceiveBufferPerStream: bodyWindow,
		},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, owner(c))
		},
		ErrorLog: log.New(&mistakes{to: os.Stderr}, "", 0),
	}
	i.wg.Go(func() { _ = i.server.Serve(i.queue) })
	return i
}

// over2 is HTTP/2, spoken at once.
func over2() *http.Protocols {
	p := &http.Protocols{}
	p.SetUnencryptedHTTP2(true)
	return p
}

// quickCurves are without those for the days of quantum computers, which cost as
// much as all the rest of a handshake. What is said between the inside and its
// keeper never leaves the memory of this host.
var quickCurves = []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521}

// mistakes passes on what net/http logs of our own doing: that a handler
// panicked, and where. It ends the request and its connection; nobody would hear
// of it otherwise.
type mistakes struct {
	to   io.Writer
	told atomic.Int32
}

// maxMistakes bounds what is told: whoever can provoke one can do so again.
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
	for _, s := range i.shut() {
		s.end()
	}
	i.up.close()
	i.wg.Wait()
}

// shut lets no more connections over HTTP/1 in, and gives those there are.
func (i *Inspector) shut() []*session {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ended = true
	return slices.Collect(maps.Keys(i.sessions))
}

// enter notes a connection over HTTP/1, which has to leave again. It is false if
// the inspector is closed.
func (i *Inspector) enter(s *session) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ended {
		return false
	}
	i.sessions[s] = struct{}{}
	i.wg.Add(1)
	return true
}

func (i *Inspector) leave(s *session) {
	i.mu.Lock()
	delete(i.sessions, s)
	i.mu.Unlock()
	i.wg.Done()
}

// Serve looks into a connection until it ends. Said is what was read of it
// before. What went wrong with single requests is in the log; the error is for
// a connection on which there were none.
func (i *Inspector) Serve(ctx context.Context, inside relay.Conn, said []byte, h Host, n *relay.Counts, t *Track) error {
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
	if !i.enter(one) {
		one.end()
		return net.ErrClosed
	}
	defer i.leave(one)
	return one.serve(i.handleHTTP1)
}

// serveHTTP2 returns when the connection has ended.
func (i *Inspector) serveHTTP2(c *conn, s *tls.Conn) error {
	if err := c.hold.Take(holdHTTP2); err != nil {
		c.Reset()
		return err
	}
	c.frames = newFrames(s, c, i.heads)
	defer c.frames.release()
	if !i.queue.put(c.frames) {
		c.Reset()
		return net.ErrClosed
	}
	<-c.done
	return c.frames.failed()
}

// Review ends the connections to servers that may not go on. Those to the inside
// are the caller's, by their Tracks.
func (i *Inspector) Review() { i.up.review(i.conf.Still) }

// ErrNoHTTP is for connections on which every request would have to be judged.
var ErrNoHTTP = errors.New("its requests have to be judged, and it does not speak HTTP")

// noHead is for what may be the beginning of a request, and does not go on.
func noHead() error {
	return fmt.Errorf("%w: no head of a request has come whole within %s", ErrNoHTTP, headTime)
}

// queue hands connections to the server.
type queue struct {
	conns chan net.Conn
	once  sync.Once
	gone  chan struct{}
}

func newQueue() *queue { return &queue{conns: make(chan net.Conn), gone: make(chan struct{})} }

func (q *queue) put(c net.Conn) bool {
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

// Addr is for those who print it.
func (*queue) Addr() net.Addr { return &net.TCPAddr{} }

var errHeld = errors.New("the request holds more than its rule allows")
