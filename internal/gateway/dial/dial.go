// Package dial connects to the real servers behind names. Looking a name up,
// judging what came out, and connecting are one step here: the address that was
// judged is the one that is dialled, whatever the name means a moment later.
package dial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/bothy-dev/bothy/internal/gateway/relay"
)

// Timeout bounds looking up and connecting, all addresses together.
const Timeout = 30 * time.Second

// keepAlive notices servers that vanished.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 2 * time.Minute, Interval: 30 * time.Second, Count: 4}

// Judge decides whether an address may be dialled. The error is the reason why
// not.
type Judge func(netip.AddrPort) error

// Refused says that a name led to addresses none of which may be dialled.
type Refused struct {
	Addr netip.AddrPort
	Why  error
}

func (r *Refused) Error() string { return r.Why.Error() }
func (r *Refused) Unwrap() error { return r.Why }

// Dialer looks names up as the host does. Its zero value works.
type Dialer struct {
	Resolver *net.Resolver // nil: the host's
}

// Name connects to a name. The search list of the host's resolver is for its
// own users: the name is taken as it is.
func (d *Dialer) Name(ctx context.Context, name string, port uint16, judge Judge) (relay.TCP, error) {
	return d.dial(ctx, name+".", port, judge)
}

// Addr connects to an address.
func (d *Dialer) Addr(ctx context.Context, to netip.AddrPort, judge Judge) (relay.TCP, error) {
	return d.dial(ctx, to.Addr().String(), to.Port(), judge)
}

func (d *Dialer) dial(ctx context.Context, host string, port uint16, judge Judge) (relay.TCP, error) {
	dialer := net.Dialer{
		Timeout: Timeout, Resolver: d.Resolver, KeepAliveConfig: keepAlive,
		// Control sees what connect will be called with, so nothing lies
		// between the judgement and the connection.
		ControlContext: func(_ context.Context, network, address string, _ syscall.RawConn) error {
			return check(network, address, judge)
		},
	}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, fmt.Sprint(port)))
	if err == nil {
		return relay.TCP{TCPConn: conn.(*net.TCPConn)}, nil
	}
	if r, ok := errors.AsType[*Refused](err); ok {
		return relay.TCP{}, r
	}
	return relay.TCP{}, failed(strings.TrimSuffix(host, "."), err)
}

// check asks the judge about an address as the kernel will get it.
func check(network, address string, judge Judge) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || network != "tcp4" && network != "tcp6" {
		return &Refused{Why: fmt.Errorf("%s %s is no address to dial", network, address)}
	}
	if err := judge(to); err != nil {
		return &Refused{Addr: to, Why: err}
	}
	return nil
}
