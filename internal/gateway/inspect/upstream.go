package inspect

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/relay"
	"github.com/bothy-dev/bothy/spec"
)

// upstream are the connections to real servers.
type upstream struct {
	*http.Transport
	dial  func(context.Context, Host) (relay.Conn, error)
	still func(Host, netip.Addr) bool

	mu  sync.Mutex
	set map[*outside]struct{}
}

// Connections kept for the next request.
const (
	idlePerHost = 64
	idleAll     = 256
	allPerHost  = 256 // also those in use; more wait
	idleUpTime  = time.Minute
	answerTime  = 30 * time.Minute // until the head of an answer is there: models think
	copyBuffer  = 32 << 10
)

func newUpstream(c Config) *upstream {
	u := &upstream{dial: c.Dial, still: c.Still, set: map[*outside]struct{}{}}
	u.Transport = &http.Transport{
		DialContext:       u.connect,
		TLSClientConfig:   &tls.Config{RootCAs: c.Roots, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true, DisableCompression: true,
		TLSHandshakeTimeout: headTime, ResponseHeaderTimeout: answerTime, ExpectContinueTimeout: time.Second,
		MaxConnsPerHost: allPerHost, MaxIdleConns: idleAll, MaxIdleConnsPerHost: idlePerHost, IdleConnTimeout: idleUpTime,
		MaxResponseHeaderBytes: maxAnswerHead,
		ReadBufferSize:         copyBuffer, WriteBufferSize: copyBuffer,
	}
	return u
}

// errClosed is for a server that other rules closed meanwhile.
var errClosed = spec.Errorf(spec.ErrDenied, "the rules changed while the server was asked")

// outside is a connection to a real server.
type outside struct {
	relay.Conn
	host Host
	addr netip.Addr
	u    *upstream
}

// Close forgets the connection, too.
func (o *outside) Close() error {
	o.u.mu.Lock()
	delete(o.u.set, o)
	o.u.mu.Unlock()
	return o.Conn.Close()
}

// connect dials for the transport, which knows servers as host:port.
func (u *upstream) connect(ctx context.Context, _, address string) (net.Conn, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, err
	}
	h := Host{Port: uint16(port)}
	if a, err := netip.ParseAddr(host); err == nil {
		h.Addr = a
	} else {
		h.Name = host
	}
	c, err := u.dial(ctx, h)
	if err != nil {
		return nil, err
	}
	o := &outside{Conn: c, host: h, addr: relay.Remote(c), u: u}
	u.mu.Lock()
	u.set[o] = struct{}{}
	u.mu.Unlock()
	if !u.still(h, o.addr) { // the rules changed while it was dialled
		_ = o.Close()
		return nil, errClosed
	}
	return o, nil
}

// review cuts what may not go on, and keeps nothing that is idle: it was opened
// under other rules.
func (u *upstream) review(judge func(Host, netip.Addr) bool) {
	u.CloseIdleConnections()
	u.mu.Lock()
	defer u.mu.Unlock()
	for o := range u.set {
		if !judge(o.host, o.addr) {
			o.Reset()
		}
	}
}

func (u *upstream) close() {
	u.review(func(Host, netip.Addr) bool { return false })
}

// buffers are what bodies are copied through.
type buffers struct{ pool sync.Pool }

func newBuffers() *buffers {
	return &buffers{sync.Pool{New: func() any { b := make([]byte, copyBuffer); return &b }}}
}

// Get and Put make it a pool for the proxy.
func (b *buffers) Get() []byte { return *b.pool.Get().(*[]byte) }

// Put takes a buffer back.
func (b *buffers) Put(s []byte) { b.pool.Put(&s) }
