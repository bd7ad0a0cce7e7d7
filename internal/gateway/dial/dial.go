// Package dial connects to the real servers behind names. Looking a name up, judging its addresses,
// and connecting are one step here: the judged address is the dialled one, whatever the name
// resolves to a moment later.
package dial

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/relay"
	"github.com/bothy-dev/bothy/internal/hostproxy"
)

// Timeout bounds looking up and connecting, all addresses together.
const Timeout = 30 * time.Second

// keepAlive notices servers that vanished.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 2 * time.Minute, Interval: 30 * time.Second, Count: 4}

// Judge decides whether an address may be dialled. It returns the reason against it, or nil. An
// invalid address means the address that a proxy finds for the name.
type Judge func(netip.AddrPort) error

// Refused reports that a name resolved only to addresses that may not be dialled.
type Refused struct {
	Addr netip.AddrPort
	Why  error
}

func (r *Refused) Error() string { return r.Why.Error() }
func (r *Refused) Unwrap() error { return r.Why }

// Dialer looks names up as the host does, and connects as its programs do. Its zero value
// works.
type Dialer struct {
	Resolver *net.Resolver       // nil: the host's
	Proxies  *hostproxy.Settings // nil: every server is dialled directly
	Roots    *x509.CertPool      // vouch for a proxy reached over TLS; nil: the host's

	known known
}

// Name connects to a name. The name is taken as it is: the search list of the host's resolver is
// for the host's own users.
func (d *Dialer) Name(ctx context.Context, name string, port uint16, judge Judge) (relay.Conn, error) {
	proxy, err := d.Proxies.For(name, port)
	switch {
	case err != nil:
		return nil, &Failed{Why: err.Error(), err: err}
	case proxy != nil:
		return d.nameByProxy(ctx, proxy, name, port, judge, d.tunnel)
	}
	return d.direct(ctx, name+".", port, judge)
}

// NameForHTTP connects to a name to which requests are sent in clear. Where Name would have
// a proxy CONNECT to the name, the connection is [Forwarded].
func (d *Dialer) NameForHTTP(ctx context.Context, name string, port uint16, judge Judge) (relay.Conn, error) {
	proxy, err := d.Proxies.For(name, port)
	if err != nil || proxy == nil {
		return d.Name(ctx, name, port, judge)
	}
	return d.nameByProxy(ctx, proxy, name, port, judge, d.forward)
}

// Addr connects to an address.
func (d *Dialer) Addr(ctx context.Context, to netip.AddrPort, judge Judge) (relay.Conn, error) {
	proxy, err := d.Proxies.For(to.Addr().String(), to.Port())
	switch {
	case err != nil:
		return nil, &Failed{Why: err.Error(), err: err}
	case proxy != nil:
		if err := judge(to); err != nil {
			return nil, &Refused{Addr: to, Why: err}
		}
		return d.addrByProxy(ctx, proxy, to)
	}
	return d.direct(ctx, to.Addr().String(), to.Port(), judge)
}

// AddrForHTTP connects to an address to which requests are sent in clear. Where a proxy
// refuses to CONNECT to it, the connection is [Forwarded].
func (d *Dialer) AddrForHTTP(ctx context.Context, to netip.AddrPort, judge Judge) (relay.Conn, error) {
	conn, err := d.Addr(ctx, to, judge)
	if by, ok := errors.AsType[*hostproxy.Error](err); ok && by.Refused() {
		return d.forward(ctx, by.Proxy, net.TCPAddrFromAddrPort(to))
	}
	return conn, err
}

func (d *Dialer) direct(ctx context.Context, host string, port uint16, judge Judge) (relay.Conn, error) {
	dialer := net.Dialer{
		Timeout: Timeout, Resolver: d.Resolver, KeepAliveConfig: keepAlive,
		// Control sees the final arguments of connect, so nothing comes between the judgement and the
		// connection.
		ControlContext: func(_ context.Context, network, address string, _ syscall.RawConn) error {
			return checkAddress(network, address, judge)
		},
	}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, fmt.Sprint(port)))
	if err == nil {
		return relay.TCP{TCPConn: conn.(*net.TCPConn)}, nil
	}
	if r, ok := errors.AsType[*Refused](err); ok {
		return nil, r
	}
	return nil, failed(strings.TrimSuffix(host, "."), err)
}

// checkAddress asks the judge about an address as the kernel will get it.
func checkAddress(network, address string, judge Judge) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || network != "tcp4" && network != "tcp6" {
		return &Refused{Why: fmt.Errorf("%s %s is not an address to dial", network, address)}
	}
	if err := judge(to); err != nil {
		return &Refused{Addr: to, Why: err}
	}
	return nil
}
