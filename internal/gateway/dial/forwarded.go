package dial

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"

	"github.com/bothy-dev/bothy/internal/gateway/relay"
	"github.com/bothy-dev/bothy/internal/hostproxy"
)

// Forwarded is a connection to a proxy that sends requests on to one server. Each request has
// to name that server in its first line (RFC 9112, 3.2.2). Most proxies allow CONNECT to port
// 443 alone, and reach servers in clear only so.
type Forwarded struct {
	tunnel
	proxy *hostproxy.Proxy
}

// forward connects to a proxy that sends requests on to a server.
func (d *Dialer) forward(ctx context.Context, proxy *hostproxy.Proxy, to net.Addr) (relay.Conn, error) {
	conn, err := d.openProxy(ctx, proxy)
	if err != nil {
		return nil, tunnelFailed(ctx, to, proxy.Fail(to.String(), err))
	}
	return &Forwarded{tunnel{conn, to}, proxy}, nil
}

// Proxy is the proxy at the other end.
func (f *Forwarded) Proxy() *hostproxy.Proxy { return f.proxy }

// Server returns the server that requests are sent on to, as in a URL.
func (f *Forwarded) Server() string { return strings.TrimSuffix(f.to.String(), ":80") }

// SyscallConn lets the owner ask the kernel whether the proxy has hung up. On a connection over TLS
// the kernel cannot tell everything.
func (f *Forwarded) SyscallConn() (syscall.RawConn, error) {
	if c, ok := f.Conn.(syscall.Conn); ok {
		return c.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}
