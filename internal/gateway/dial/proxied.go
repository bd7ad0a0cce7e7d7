package dial

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/relay"
	"github.com/bothy-dev/bothy/internal/hostproxy"
)

const (
	// addressTime bounds a proxy's time for one address while there are others.
	addressTime = 10 * time.Second
	// mostAddresses is how many addresses of a name are tried through a proxy.
	mostAddresses = 4
)

// nameByProxy connects to a name through a proxy: to a judged address of the name or, if the host
// finds no address or the proxy refuses addresses, by name. In the second case the proxy finds the
// address, and the judge is asked for an invalid one. The caller chooses how the proxy is asked by
// name.
func (d *Dialer) nameByProxy(ctx context.Context, proxy *hostproxy.Proxy, name string, port uint16, judge Judge, byName way) (relay.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	all, err := d.lookup(ctx, name)
	if err != nil {
		return nil, err
	}
	list, closed := judged(all, port, judge)
	refused := false
	for i, to := range list {
		var conn relay.Conn
		if conn, err = d.addrOf(ctx, to, judge, i+1 == len(list)); err == nil {
			return conn, nil
		}
		by, ok := errors.AsType[*hostproxy.Error](err)
		if ctx.Err() != nil || ok && by.Final() {
			return nil, err
		}
		refused = refused || ok && by.Refused()
	}
	switch {
	case len(list) > 0 && (!refused || closed != nil):
		return nil, err
	case closed != nil:
		return nil, closed
	}
	if err := judge(netip.AddrPortFrom(netip.Addr{}, port)); err != nil {
		return nil, &Refused{Why: err}
	}
	return byName(ctx, proxy, named(net.JoinHostPort(name, strconv.Itoa(int(port)))))
}

// way connects to a server through a proxy.
type way func(ctx context.Context, proxy *hostproxy.Proxy, to net.Addr) (relay.Conn, error)

// judged returns the addresses that may be dialled. closed is the error about one that may not.
func judged(all []netip.Addr, port uint16, judge Judge) (list []netip.AddrPort, closed error) {
	for _, a := range all {
		to := netip.AddrPortFrom(a.Unmap(), port)
		if err := judge(to); err != nil {
			closed = &Refused{Addr: to, Why: err}
		} else if len(list) < mostAddresses {
			list = append(list, to)
		}
	}
	return list, closed
}

// addrOf connects to one of the addresses of a name. The list of exceptions may name a network.
func (d *Dialer) addrOf(ctx context.Context, to netip.AddrPort, judge Judge, last bool) (relay.Conn, error) {
	if !last {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, addressTime)
		defer cancel()
	}
	return d.Addr(ctx, to, judge)
}

func (d *Dialer) addrByProxy(ctx context.Context, proxy *hostproxy.Proxy, to netip.AddrPort) (relay.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	return d.tunnel(ctx, proxy, net.TCPAddrFromAddrPort(to))
}

// tunnel connects to a server through a proxy.
func (d *Dialer) tunnel(ctx context.Context, proxy *hostproxy.Proxy, to net.Addr) (relay.Conn, error) {
	conn, err := d.openProxy(ctx, proxy)
	if err != nil {
		return nil, tunnelFailed(ctx, to, proxy.Fail(to.String(), err))
	}
	if err := proxy.Connect(ctx, conn, to.String()); err != nil {
		conn.Reset()
		return nil, tunnelFailed(ctx, to, err)
	}
	return &tunnel{conn, to}, nil
}

func tunnelFailed(ctx context.Context, to net.Addr, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err() // the caller no longer waits
	}
	f := &Failed{Why: err.Error(), err: err}
	if a, ok := to.(*net.TCPAddr); ok {
		f.Addr = a.AddrPort()
	}
	return f
}

// openProxy connects to a proxy, over TLS if it wants that.
func (d *Dialer) openProxy(ctx context.Context, proxy *hostproxy.Proxy) (relay.Conn, error) {
	dialer := net.Dialer{Timeout: Timeout, Resolver: d.Resolver, KeepAliveConfig: keepAlive}
	raw, err := dialer.DialContext(ctx, "tcp", proxy.Address())
	if err != nil {
		return nil, err
	}
	tcp := relay.TCP{TCPConn: raw.(*net.TCPConn)}
	if !proxy.TLS {
		return tcp, nil
	}
	secure := tls.Client(tcp, &tls.Config{RootCAs: d.Roots, ServerName: proxy.Host, MinVersion: tls.VersionTLS12})
	if err := secure.HandshakeContext(ctx); err != nil {
		tcp.Reset()
		return nil, err
	}
	return &overTLS{Conn: secure, tcp: tcp}, nil
}

// tunnel is a connection to a server through a proxy. Its other end is the server.
type tunnel struct {
	relay.Conn
	to net.Addr
}

// RemoteAddr returns the server's address, or its name if only the proxy knows the address.
func (t *tunnel) RemoteAddr() net.Addr { return t.to }

// named is a server whose address only a proxy knows.
type named string

func (named) Network() string  { return "tcp" }
func (n named) String() string { return string(n) }

// overTLS is a connection to a proxy over TLS.
type overTLS struct {
	*tls.Conn
	tcp  relay.TCP
	came []byte // was read by Await
	err  error  // the error that ended it
}

// maxRecord is the most that a read of TLS returns at once.
const maxRecord = 16 << 10

// Await reads the next bytes: only a read shows whether TLS has any.
func (c *overTLS) Await() {
	if len(c.came) > 0 || c.err != nil {
		return
	}
	b := make([]byte, maxRecord)
	n, err := c.Conn.Read(b)
	c.came, c.err = b[:n], err
}

// Read returns the bytes that Await has read first, then the next ones.
func (c *overTLS) Read(b []byte) (n int, err error) {
	if len(c.came) == 0 && c.err == nil {
		return c.Conn.Read(b)
	}
	n = copy(b, c.came)
	c.came = c.came[n:]
	if len(c.came) == 0 {
		c.came = nil
		err, c.err = c.err, nil
	}
	return n, err
}

// Reset discards the unsent bytes and sends a reset.
func (c *overTLS) Reset() { c.tcp.Reset() }
