// Package upstream sends judged requests to their servers, and returns the answers. It keeps
// connections for the next request, and cuts those that may not go on.
package upstream

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/textproto"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/relay"
	"github.com/bothy-dev/bothy/spec"
)

// Servers keeps the connections to real servers. It has those over HTTP/1 in its own pool, where a
// request needs no goroutine but its own. net/http keeps connections over HTTP/2.
type Servers struct {
	dial  func(context.Context, Host) (relay.Conn, error)
	still func(Host, netip.Addr) bool
	named func(Host) string
	tls   *tls.Config
	links pool
	lanes lanes
	head  time.Duration // until the head of an answer has arrived

	mu    sync.Mutex
	set   map[*outside]struct{}
	fresh map[Host][]*tls.Conn // found to speak HTTP/2, without a request yet
}

// Connections kept for the next request.
const (
	idlePerHost  = 64
	idleAll      = 256
	allPerHost   = 256 // in use; more wait
	perHostHTTP2 = 64  // with many requests on each
	idleUpTime   = time.Minute
	answerTime   = 30 * time.Minute // models think
	serverTime   = 30 * time.Second // for a handshake, or a page of a proxy
	tickets      = 64               // TLS sessions that can be resumed
)

// Config configures the connections to servers. All functions are called concurrently.
type Config struct {
	// Dial connects to the real server, if its address may be dialled. Without TLS, it may return a
	// [dial.Forwarded].
	Dial func(context.Context, Host) (relay.Conn, error)
	// Still reports whether a connection to a server at this address may go on.
	Still func(Host, netip.Addr) bool
	// Named returns a server's own name if the inside calls it by another; the empty string, and a
	// nil Named: the names are the same.
	Named func(Host) string
	// Roots are the authorities that must vouch for servers; nil: the host's.
	Roots *x509.CertPool
}

// New returns connections to servers. The caller has to close them.
func New(c Config) *Servers {
	u := &Servers{
		dial: c.Dial, still: c.Still, named: c.Named, head: answerTime,
		set: map[*outside]struct{}{}, fresh: map[Host][]*tls.Conn{},
		tls: &tls.Config{
			RootCAs: c.Roots, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
			ClientSessionCache: tls.NewLRUClientSessionCache(tickets),
		},
	}
	u.lanes = newLanes(u)
	return u
}

// errClosed is for a server that a change of rules has closed meanwhile.
var errClosed = &spec.Error{Class: spec.ErrDenied, Err: errors.New("the rules changed while the server was asked")}

// outside is a connection to a real server.
type outside struct {
	relay.Conn
	host Host
	addr netip.Addr
	u    *Servers
	deaf bool // Read acts as if it timed out; only the reader uses it
}

// Read reads the server's bytes.
func (o *outside) Read(b []byte) (int, error) {
	if o.deaf {
		return 0, os.ErrDeadlineExceeded
	}
	return o.Conn.Read(b)
}

// Close also forgets the connection.
func (o *outside) Close() error {
	o.forget()
	return o.Conn.Close()
}

// Reset closes the connection in a way that the server notices.
func (o *outside) Reset() {
	o.forget()
	o.Conn.Reset()
}

func (o *outside) forget() {
	o.u.mu.Lock()
	defer o.u.mu.Unlock()
	delete(o.u.set, o)
}

// RoundTrip sends a request to its host, and returns the answer as soon as its head has arrived.
// The caller has to close the body of the answer.
func (u *Servers) RoundTrip(ctx context.Context, h Host, r *http.Request, trip *Trip) (*http.Response, error) {
	if h.Name != "" {
		h.Addr = netip.Addr{} // it is whatever the name means
	}
	_, only1 := r.Header["Upgrade"] // HTTP/2 has no Upgrade
	for {
		l, err := u.linkTo(ctx, h, only1)
		if err != nil {
			return nil, err
		}
		if l == nil {
			return u.overHTTP2(ctx, h, r, trip)
		}
		trip.reached(l.out.addr)
		resp, err := l.exchange(ctx, r, trip)
		if err == nil || trip.Outflow.Err() != nil || !l.mayRepeat(ctx, r) {
			return resp, err
		}
	}
}

// linkTo returns a connection to a host that speaks HTTP/1. It returns nil if the host speaks HTTP/2,
// and may. The caller has to put the connection back, or drop it.
func (u *Servers) linkTo(ctx context.Context, h Host, only1 bool) (*link, error) {
	s, err := u.links.enterServer(ctx, h, only1)
	if s == nil {
		return nil, err
	}
	if l := u.links.takeIdle(s); l != nil {
		return l, nil
	}
	conn, out, err := u.secured(ctx, h, only1)
	if err != nil {
		u.links.leaveServer(s)
		return nil, err
	}
	if t, ok := conn.(*tls.Conn); ok && !only1 && u.speaks2(h, t) {
		u.links.leaveServer(s)
		u.mu.Lock()
		u.fresh[h] = append(u.fresh[h], t)
		u.mu.Unlock()
		return nil, nil
	}
	return newLink(u, s, conn, out), nil
}

// speaks2 notes which version a server speaks.
func (u *Servers) speaks2(h Host, c *tls.Conn) bool {
	is := c.ConnectionState().NegotiatedProtocol == "h2"
	u.links.speaks2(h, is)
	return is
}

// secured dials a host, and speaks TLS with it if that is wanted.
func (u *Servers) secured(ctx context.Context, h Host, only1 bool) (net.Conn, *outside, error) {
	out, err := u.connect(ctx, h)
	if err != nil || !h.TLS {
		return out, out, err
	}
	ctx, cancel := context.WithTimeout(ctx, serverTime)
	defer cancel()
	conf := u.tls.Clone()
	conf.ServerName = h.Hostname()
	if u.named != nil {
		conf.ServerName = cmp.Or(u.named(h), conf.ServerName)
	}
	if only1 {
		conf.NextProtos = []string{"http/1.1"}
	}
	t := tls.Client(out, conf)
	if err := t.HandshakeContext(ctx); err != nil {
		_ = out.Close()
		return nil, nil, err
	}
	return t, out, nil
}

// connect dials a host.
func (u *Servers) connect(ctx context.Context, h Host) (*outside, error) {
	c, err := u.dial(ctx, Host{Name: h.Name, Addr: h.Addr, Port: h.Port, TLS: h.TLS})
	if err != nil {
		return nil, err
	}
	o := &outside{Conn: c, host: Host{Name: h.Name, Addr: h.Addr, Port: h.Port}, addr: relay.Remote(c), u: u}
	u.mu.Lock()
	u.set[o] = struct{}{}
	u.mu.Unlock()
	if !u.still(o.host, o.addr) { // the rules changed while it was dialled
		_ = o.Close()
		return nil, errClosed
	}
	return o, nil
}

// overHTTP2 sends a request through net/http.
func (u *Servers) overHTTP2(ctx context.Context, h Host, r *http.Request, trip *Trip) (*http.Response, error) {
	defer u.closeFresh(h) // another connection may have been there
	var mu sync.Mutex
	answered := false
	lane, err := u.lanes.takeLane(trip)
	if err != nil {
		return nil, err
	}
	head, err := trip.countHead(r)
	if err != nil {
		return nil, err
	}
	r = r.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			head.sentOver(info.Conn)
			if t, ok := info.Conn.(*tls.Conn); ok {
				trip.reached(t.NetConn().(*outside).addr)
			}
		},
		Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			mu.Lock()
			defer mu.Unlock()
			if answered {
				return nil
			}
			return trip.interim(code, http.Header(header))
		},
	}))
	to := *r.URL
	to.Scheme, to.Host = "https", h.String()
	r.URL, r.Body = &to, trip.countBody(r)
	resp, err := lane.RoundTrip(r)
	mu.Lock()
	defer mu.Unlock()
	answered = true
	return resp, err
}

// dialHTTP2 returns a connection for net/http: one that was found to speak HTTP/2, or a new one,
// whatever that speaks.
func (u *Servers) dialHTTP2(ctx context.Context, _, address string) (net.Conn, error) {
	h, err := hostOf(address)
	if err != nil {
		return nil, err
	}
	if t := u.takeFresh(h); t != nil {
		return t, nil
	}
	c, _, err := u.secured(ctx, h, false)
	if err != nil {
		return nil, err
	}
	u.speaks2(h, c.(*tls.Conn))
	return c, nil
}

func (u *Servers) takeFresh(h Host) *tls.Conn {
	u.mu.Lock()
	defer u.mu.Unlock()
	list := u.fresh[h]
	if len(list) == 0 {
		return nil
	}
	if len(list) == 1 {
		delete(u.fresh, h)
	} else {
		u.fresh[h] = list[1:]
	}
	return list[0]
}

func (u *Servers) closeFresh(h Host) {
	for t := u.takeFresh(h); t != nil; t = u.takeFresh(h) {
		_ = t.Close()
	}
}

// hostOf parses net/http's name of a server: host:port.
func hostOf(address string) (Host, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return Host{}, err
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return Host{}, err
	}
	h := Host{Port: uint16(port), TLS: true}
	if a, err := netip.ParseAddr(host); err == nil {
		h.Addr = a
	} else {
		h.Name = host
	}
	return h, nil
}

// Review cuts the connections that may not go on, and closes all idle ones: they were opened under
// other rules.
func (u *Servers) Review(judge func(Host, netip.Addr) bool) {
	for _, o := range u.listConns() {
		if !judge(o.host, o.addr) {
			o.Reset()
		}
	}
	u.links.closeIdle()
	u.lanes.closeIdle()
}

func (u *Servers) listConns() []*outside {
	u.mu.Lock()
	defer u.mu.Unlock()
	list := make([]*outside, 0, len(u.set))
	for o := range u.set {
		list = append(list, o)
	}
	return list
}

func (u *Servers) Close() {
	u.links.closeAll()
	u.Review(func(Host, netip.Addr) bool { return false })
}
